"""Variances of cells from the moments of reports' contributions, and tensors times one matrix per axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "along_axes",
    "cell_variances",
    "divide_by_condition",
    "embed",
    "functional_covariance",
    "least_variance",
    "less_sampling",
    "raise_to_least",
    "row_products",
    "spread_out",
]

_Floats = NDArray[np.float64]


def spread_out(keep: tuple[int, ...], shape: tuple[int, ...], weights: _Floats) -> _Floats:
    """Weights of the sums over the axes that are not kept, as weights of all cells."""
    order = np.argsort(keep)
    ascending = weights.transpose(0, *(1 + order))
    dropped = tuple(1 + i for i in range(len(shape)) if i not in keep)
    return np.broadcast_to(np.expand_dims(ascending, dropped), (len(weights), *shape))


def embed(place: tuple[int | slice, ...], shape: tuple[int, ...], weights: _Floats) -> _Floats:
    """Weights of the cells at a place, as weights of all cells."""
    out = np.zeros((len(weights), *shape))
    out[(slice(None), *place)] = weights
    return out


def divide_by_condition(
    proportions: _Floats, totals: _Floats, of: tuple[int, ...], weights: _Floats
) -> _Floats:
    """Weights of conditional cells, as weights of the cells that are divided: d(pi/S) = (dpi - p dS)/S."""
    of = tuple(1 + axis for axis in of)
    touched = weights != 0  # the NaN of an unused row must not affect the others
    mean = np.where(touched, weights * proportions, 0).sum(axis=of, keepdims=True)
    present = touched.any(axis=of, keepdims=True)
    return np.where(present, (weights - mean) / totals, 0)


def along_axes(tensors: _Floats, matrices: Sequence[_Floats]) -> _Floats:
    """Multiply each axis of each tensor by its matrix: what the Kronecker product of the matrices
    would do, never built.

    The first axis goes through its matrix and comes out last, so after one round all axes are back
    in order.
    """
    n_tensors = len(tensors)
    turned = tensors.reshape(n_tensors, -1).T
    for matrix in matrices:
        turned = turned.reshape(matrix.shape[1], -1).T @ matrix.T
    return turned.reshape(n_tensors, *(len(matrix) for matrix in matrices))


def row_products(parts: Sequence[_Floats], n: int) -> _Floats:
    """For each report, all products of one number from each part: the rows' Kronecker products."""
    out = np.ones((n, 1))
    for part in parts:
        out = (out[:, :, None] * part[:, None, :]).reshape(n, -1)
    return out


def least_variance(coins: Sequence[_Floats], n: int) -> _Floats:
    """The smallest variance that the coins give each cell; 0 if not known."""
    if not coins:
        return np.zeros(())
    out = np.ones(())
    for part in coins:
        out = np.multiply.outer(out, part)
    return np.asarray(out / (2 * n), dtype=np.float64)


def raise_to_least(covariance: _Floats, weights: _Floats, floor: _Floats) -> _Floats:
    """The covariance, with the variances of single-cell functionals raised to the cells'
    minimum."""
    flat = weights.reshape(len(weights), -1)
    single = np.flatnonzero(np.count_nonzero(flat, axis=1) == 1)
    cells = np.abs(flat[single]).argmax(axis=1)
    least = flat[single, cells] ** 2 * np.broadcast_to(floor, weights.shape[1:]).reshape(-1)[cells]
    covariance[single, single] = np.maximum(covariance[single, single], least)
    return covariance


def cell_variances(
    squares: _Floats, proportions: _Floats, n: int, population: int | None
) -> _Floats:
    """Variances of the cells from the mean squares of their contributions."""
    variance = (squares - proportions**2) / max(n - 1, 1)
    if population is not None:
        clipped = np.clip(proportions, 0, 1)
        variance -= clipped * (1 - clipped) / population
    return np.maximum(variance, 0)


def functional_covariance(
    moments: _Floats, weights: _Floats, proportions: _Floats, n: int, population: int | None
) -> _Floats:
    """Covariance of functionals from the mean products of their scores."""
    means = weights.reshape(len(weights), -1) @ proportions.reshape(-1)
    covariance = (moments - np.outer(means, means)) / max(n - 1, 1)
    return less_sampling(covariance, weights, proportions, population)


def less_sampling(
    covariance: _Floats, weights: _Floats, proportions: _Floats, population: int | None
) -> _Floats:
    """Remove the sampling error that a finite population does not have."""
    if population is not None:
        flat, cells = weights.reshape(len(weights), -1), proportions.reshape(-1)
        sampling = (flat * cells) @ flat.T - np.outer(flat @ cells, flat @ cells)
        # Estimated proportions below 0 can make a sampling variance negative, which is impossible.
        np.fill_diagonal(sampling, np.maximum(np.diagonal(sampling), 0))
        covariance = covariance - sampling / population
    np.fill_diagonal(covariance, np.maximum(np.diagonal(covariance), 0))
    return covariance
