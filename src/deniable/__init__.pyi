"""The public names of this package and the modules that define them, each written once.

Type checkers read this file, and :mod:`deniable.exports` makes the lazy imports of it.
"""

from deniable import (
    audit as audit,
    client as client,
    curator as curator,
    errors as errors,
    estimation as estimation,
    graphs as graphs,
    mechanisms as mechanisms,
    planning as planning,
    privacy as privacy,
    queries as queries,
    release as release,
    reproduce as reproduce,
    sizing as sizing,
    survey as survey,
)
from deniable.aggregator.windows.window import Window as Window
from deniable.analyst.analyst import Analyst as Analyst
from deniable.client.device import Device as Device
from deniable.client.policy import Policy as Policy, read_policy as read_policy
from deniable.client.vaults.vault import Vault as Vault
from deniable.errors import (
    AnswerError as AnswerError,
    AnswerTypeError as AnswerTypeError,
    AuditLogError as AuditLogError,
    BackupError as BackupError,
    BadSqlError as BadSqlError,
    BudgetExceededError as BudgetExceededError,
    BudgetFileError as BudgetFileError,
    CellError as CellError,
    ChannelError as ChannelError,
    ConformanceError as ConformanceError,
    CuratorError as CuratorError,
    DamagedLogError as DamagedLogError,
    DeadlineError as DeadlineError,
    DeniableError as DeniableError,
    DocumentError as DocumentError,
    EncryptedKeyError as EncryptedKeyError,
    EnvelopeError as EnvelopeError,
    ExpiredQueryError as ExpiredQueryError,
    FitError as FitError,
    ForbiddenSqlError as ForbiddenSqlError,
    GraphError as GraphError,
    HistoryCancelledError as HistoryCancelledError,
    ImportDataError as ImportDataError,
    InfeasiblePlanError as InfeasiblePlanError,
    KeyFileError as KeyFileError,
    KeyNotValidError as KeyNotValidError,
    LogAwayError as LogAwayError,
    LogError as LogError,
    LogInUseError as LogInUseError,
    MissingAnswerError as MissingAnswerError,
    MissingExtraError as MissingExtraError,
    NoReportsError as NoReportsError,
    NotGrantedError as NotGrantedError,
    OutOfDomainError as OutOfDomainError,
    ParameterError as ParameterError,
    PlanError as PlanError,
    PolicyError as PolicyError,
    PublicationError as PublicationError,
    QueryError as QueryError,
    QueryFileError as QueryFileError,
    RandomnessError as RandomnessError,
    RefusedError as RefusedError,
    ReleaseError as ReleaseError,
    ReleaseRowError as ReleaseRowError,
    ReportError as ReportError,
    ReportFormatError as ReportFormatError,
    ReportMismatchError as ReportMismatchError,
    ResponseError as ResponseError,
    RevokedKeyError as RevokedKeyError,
    RollbackError as RollbackError,
    SandboxBusyError as SandboxBusyError,
    SandboxError as SandboxError,
    ServiceError as ServiceError,
    SettingsError as SettingsError,
    SignatureError as SignatureError,
    StateError as StateError,
    StoreError as StoreError,
    SurveyError as SurveyError,
    SurveyWarning as SurveyWarning,
    TooComplexError as TooComplexError,
    TooManyRowsError as TooManyRowsError,
    TooMuchMemoryError as TooMuchMemoryError,
    UnknownKeyError as UnknownKeyError,
    UnknownLabelError as UnknownLabelError,
    UploadError as UploadError,
    VaultBusyError as VaultBusyError,
    VaultError as VaultError,
    WholeNumbersWarning as WholeNumbersWarning,
    WireError as WireError,
)
from deniable.estimation.tables import statistics as statistics
from deniable.estimation.surveys.agreement import agreement_test as agreement_test
from deniable.estimation.candidates import CandidateEstimate as CandidateEstimate
from deniable.estimation.comparison import Comparison as Comparison, compare as compare
from deniable.estimation.regression.correlation import correlate as correlate
from deniable.estimation.surveys.design_estimate import DesignEstimate as DesignEstimate
from deniable.estimation.distances import (
    euclidean as euclidean,
    kantorovich as kantorovich,
    manhattan as manhattan,
)
from deniable.estimation.estimate import Estimate as Estimate
from deniable.estimation.fit import FitTest as FitTest, fit_test as fit_test
from deniable.estimation.surveys.group_tests import compare_groups as compare_groups
from deniable.estimation.regression.imputation import (
    impute_answers as impute_answers,
    pool_imputations as pool_imputations,
)
from deniable.estimation.tables.independence import (
    IndependenceTest as IndependenceTest,
    independence_test as independence_test,
)
from deniable.estimation.laplace_comparison import (
    ErrorComparison as ErrorComparison,
    proportion_errors as proportion_errors,
    value_errors as value_errors,
)
from deniable.estimation.regression.linear import (
    LinearRegression as LinearRegression,
    regress_linear as regress_linear,
)
from deniable.estimation.regression.lists import regress_list as regress_list
from deniable.estimation.regression.margins import (
    average_effects as average_effects,
    predicted_probabilities as predicted_probabilities,
)
from deniable.estimation.maximum_likelihood import maximum_likelihood as maximum_likelihood
from deniable.estimation.surveys.one_person import (
    Guess as Guess,
    guess as guess,
    posterior as posterior,
)
from deniable.estimation.pooling import combine as combine, stratified as stratified
from deniable.estimation.surveys.prevalence_posterior import (
    PrevalencePosterior as PrevalencePosterior,
    prevalence_posterior as prevalence_posterior,
)
from deniable.estimation.regression.logistic import Regression as Regression, regress as regress
from deniable.estimation.regression.coefficient_tests import CoefficientTest as CoefficientTest
from deniable.estimation.surveys.sampling import Sample as Sample
from deniable.estimation.tables.statistic import Statistic as Statistic
from deniable.estimation.tables.table import Table as Table
from deniable.estimation.tables.joint import joint as joint
from deniable.estimation.surveys.weighted import weighted_estimate as weighted_estimate
from deniable.mechanisms.protocols.basic_rappor import BasicRappor as BasicRappor
from deniable.mechanisms.protocols.binary import BinaryResponse as BinaryResponse
from deniable.mechanisms.protocols.composite import Composite as Composite, composite as composite
from deniable.mechanisms.protocols.design_matrix import DesignMatrix as DesignMatrix
from deniable.mechanisms.designs import (
    CheaterDetection as CheaterDetection,
    Crosswise as Crosswise,
    DirectQuestion as DirectQuestion,
    ExtendedCrosswise as ExtendedCrosswise,
    ForcedResponse as ForcedResponse,
    ItemCount as ItemCount,
    ItemSum as ItemSum,
    Kuk as Kuk,
    Mangat as Mangat,
    Scrambling as Scrambling,
    StochasticLieDetector as StochasticLieDetector,
    SymmetricCheaterDetection as SymmetricCheaterDetection,
    Triangular as Triangular,
    UnrelatedQuestion as UnrelatedQuestion,
    UnrelatedQuestionUnknown as UnrelatedQuestionUnknown,
    Warner as Warner,
)
from deniable.mechanisms.protocols.direct import DirectEncoding as DirectEncoding
from deniable.mechanisms.protocols.distance import DistanceSensitive as DistanceSensitive
from deniable.mechanisms.protocols.hadamard import HadamardResponse as HadamardResponse
from deniable.mechanisms.protocols.hashing import LocalHashing as LocalHashing
from deniable.mechanisms.protocols.laplace import LaplaceEncoding as LaplaceEncoding
from deniable.mechanisms.mechanism import Mechanism as Mechanism
from deniable.mechanisms.protocols.memoized_unary import MemoizedUnary as MemoizedUnary
from deniable.mechanisms.protocols.multiple_choice import MultipleChoice as MultipleChoice
from deniable.mechanisms.protocols.permanent import PermanentAnswer as PermanentAnswer
from deniable.mechanisms.protocols.projection import RandomProjection as RandomProjection
from deniable.mechanisms.protocols.projective.response import (
    ProjectiveResponse as ProjectiveResponse,
)
from deniable.mechanisms.protocols.rappor import Rappor as Rappor
from deniable.mechanisms.reports import Reports as Reports, Tally as Tally
from deniable.mechanisms.protocols.hierarchy.ranges import HierarchicalRanges as HierarchicalRanges
from deniable.mechanisms.protocols.waves.piecewise import PiecewiseMean as PiecewiseMean
from deniable.mechanisms.protocols.waves.square_wave import SquareWave as SquareWave
from deniable.mechanisms.protocols.subset import SubsetSelection as SubsetSelection
from deniable.mechanisms.protocols.summed import SummedHistogram as SummedHistogram
from deniable.mechanisms.protocols.threshold import ThresholdHistogram as ThresholdHistogram
from deniable.mechanisms.protocols.unary import (
    OptimizedUnary as OptimizedUnary,
    SymmetricUnary as SymmetricUnary,
    UnaryEncoding as UnaryEncoding,
)
from deniable.planning.plan import Plan as Plan, plan as plan
from deniable.queries.columns.column import Column as Column
from deniable.queries.signed.keys import AnalystKey as AnalystKey
from deniable.queries.signed.key_ring import KeyRing as KeyRing, TrustedKey as TrustedKey
from deniable.queries.query import Query as Query
from deniable.queries.schedule import Schedule as Schedule
from deniable.queries.signed.signing import SignedQuery as SignedQuery, sign as sign
from deniable.randomness import (
    Source as Source,
    seeded_source as seeded_source,
    system_source as system_source,
)
from deniable.scripted_randomness import ScriptedSource as ScriptedSource, every_path as every_path

__all__: list[str]
__version__: str
