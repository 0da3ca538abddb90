"""Coverage-guided fuzzing of every decoder: one short file per target in `targets`, one runner for
all of them.

python tests/fuzz                                    every target, a million executions together
python tests/fuzz --executions 10_000_000 --jobs 2   the long run python tests/fuzz share block
--keep                 two targets; what reached new code is added to the kept corpus python
tests/fuzz share --replay FILE                one input again, with its traceback
"""
