// The documents of the services' interfaces. Made from the types of the code that writes them, by
// `python -m deniable.console.type_file`: change those, not this.

/**
 * @typedef {object} WindowResult The result of a window (docs/aggregator.md); without `estimate` if
 *   it is withheld.
 * @property {number} number Of the result, over all queries, in order of release.
 * @property {string} query
 * @property {number} serial The newest version counted in it.
 * @property {number} index
 * @property {number} start
 * @property {string} start_time
 * @property {number} end In seconds of UTC; the first second after the window.
 * @property {string} end_time
 * @property {'complete'|'withheld'|'proxy down'|'malformed'|'incomplete'} condition
 * @property {number} n The answers that the estimate is based on.
 * @property {number} nothing Messages that said there was nothing to report.
 * @property {string[]} missing The proxies without which some of its epochs were closed.
 * @property {ConservationStatement} conservation What became of the shares of its channel and
 *   epochs, per proxy.
 * @property {number|null} [influence] The largest change that one lying report can make to the
 *   estimate of any label; the changes of several liars add up.
 * @property {number} [revision] Which result of the window it is, counted from 0. Each is based on
 *   all answers that had arrived by then.
 * @property {boolean} [final] Whether no later answer can count.
 * @property {number|null} [open_until] Until which second answers may still arrive, while it is not
 *   final.
 * @property {number|null} [expected] How many more answers to expect, judging by those that came
 *   late in an earlier window; null if there is none yet.
 * @property {number|null} [wish] The half-width of the 95 % interval that the analyst wants for
 *   each proportion; `wish` in documents, as stored and served by release 0.1.0.
 * @property {number|null} [silent_from] When devices that answer as often as expected will have
 *   used up the query's budget; null if it lasts to the end.
 * @property {Record<string, string[]>} [columns] The buckets of each column of the answer; labels
 *   are their combinations, with the first column most significant.
 * @property {boolean} [complete] Whether every answer is in some bucket, so that proportions make
 *   up a whole.
 * @property {number|null} [epsilon_shuffled] An upper bound for one answer, to anyone who sees only
 *   the shuffled reports, except with probability `delta_shuffled`. null where no such claim is
 *   made: without an estimate, and for memoized answers.
 * @property {number|null} [delta_shuffled]
 * @property {number|null} [shuffled_among] How many reports the least hidden answer was shuffled
 *   among: those of its epoch, stratum and version.
 * @property {number} [held_back] Answers of its epochs that it does not have: too few to be
 *   released by themselves, or released together with epochs outside the window.
 * @property {string[]} [labels]
 * @property {number[]} [estimate]
 * @property {unknown[]} [variance] Of each proportion; what `interval` uses.
 * @property {unknown[]|null} [covariance] Of the proportions, if there are at most
 *   `LARGEST_COVARIANCE`.
 * @property {number|null} [population] The size of the population, if known: as n approaches it,
 *   only the coins' error remains.
 * @property {string} [mechanism]
 * @property {number|null} [epsilon_local] Local: the loss against anyone who knows who sent a
 *   report.
 * @property {number|null} [epsilon_sampled] The loss against anyone who does not know who took
 *   part, in a crowd of `sampled_crowd`, except with `sampled_delta`.
 * @property {number|null} [delta_sampled]
 * @property {number|null} [sampled_crowd]
 * @property {[unknown[], unknown[]]|null} [support] P(report supports the label | the label is
 *   true) and P(… | it is not), where reports either support a label or do not.
 * @property {string[]} [notes]
 * @property {unknown[]|null} [degrees] Degrees of freedom of each variance, where they are not n -
 *   1.
 * @property {[number, Estimate][]} [strata] The weighted estimates that this one is the sum of, if
 *   it is.
 * @property {number[]|null} [unbiased] The proportions before `consistent` changed them.
 * @property {ReportCounts|null} [reports] The counts it was solved from, for windows of a query.
 * @property {boolean} [exclusive] Whether a person has exactly one label, so that the proportions
 *   sum to 1. False for multiple choice.
 * @property {[unknown[], unknown[], unknown[]]|null} [score_law] For each label, two coins and a
 *   number of reports with the same variance at any proportion, where `support` and n do not say it
 *   (`deniable.estimation.score_laws`).
 * @property {unknown[]|null} [rare] With `score_law`: for each label, whether so few reports may
 *   support it that its limits must be exact.
 * @property {boolean} [conservative] Whether the variance is an upper bound, so that intervals
 *   cover at least as often as stated.
 * @property {number[]} [stderr] Standard errors.
 * @property {(number|null)[]} [low]
 * @property {(number|null)[]} [high] Limits that cover with `confidence`; null for an infinite one.
 * @property {number} [confidence]
 * @property {boolean[]} [covers_more] Whether they cover at least, not just, as often.
 * @property {number} [error] The half-width of the widest interval.
 *
 * @typedef {object} Query The newest version of a query, which proxies have it, and what this token
 *   may do with it.
 * @property {number} epsilon_sampled
 * @property {number} delta_sampled
 * @property {number|null} sampled_crowd
 * @property {string} id
 * @property {number} serial
 * @property {string} analyst
 * @property {string} question
 * @property {string[]} labels
 * @property {ScheduleDocument} schedule
 * @property {ColumnDocument[]} columns
 * @property {string[]} strata
 * @property {Record<string, unknown>} mechanism
 * @property {number} sampling
 * @property {number|null} population
 * @property {Budget} budget
 * @property {number} epsilon_local
 * @property {number} epsilon_life
 * @property {number} minimum_cohort
 * @property {number|null} grace
 * @property {number} published
 * @property {string} published_time
 * @property {number|null} stopped
 * @property {string|null} stopped_time
 * @property {Record<string, string>} relayed For each proxy, "done" or why it does not have the
 *   query yet.
 * @property {LatestWindow|null} latest
 * @property {OverdueWindow|null} overdue The window that should have been released by now.
 * @property {string[]} may What the token may do with the query: read, publish, stop, delete.
 *
 * @typedef {object} Series One label over time: one list per column.
 * @property {number[]} index
 * @property {number[]} start
 * @property {number[]} end
 * @property {number[]} serial
 * @property {('complete'|'withheld'|'proxy down'|'malformed'|'incomplete')[]} condition
 * @property {number[]} n
 * @property {(number|null)[]} revision
 * @property {(number|null)[]} estimate
 * @property {(number|null)[]} low
 * @property {(number|null)[]} high
 * @property {(number|null)[]} widest The largest standard error among the window's labels.
 *
 * @typedef {object} Sampled How JSON documents state a loss against anyone who cannot tell who took
 *   part.
 * @property {number} epsilon_sampled
 * @property {number} delta_sampled The probability for which it promises nothing.
 * @property {number|null} sampled_crowd
 *
 * @typedef {object} Health The health page of an aggregator. Of each part, "running" or what is
 *   wrong with it.
 * @property {'ok'|'degraded'|'failed'} status
 * @property {FaultDocument[]} faults
 * @property {string} engine
 * @property {string} relay
 * @property {string} [history]
 * @property {string} [controller]
 * @property {ProxyHealth[]} proxies
 *
 * @typedef {object} Session Who is signed in.
 * @property {string} name
 * @property {string} role
 * @property {string} csrf What changes must carry in X-Deniable-CSRF.
 * @property {string[]} proxies
 *
 * @typedef {object} Version
 * @property {number} serial
 * @property {number} from_epoch
 * @property {string} from
 * @property {Record<string, unknown>} parameters
 * @property {number} minimum_cohort
 * @property {Losses} epsilon
 * @property {string} reason
 * @property {number|null} wish
 * @property {number|null} achieved
 *
 * @typedef {object} HistoryAnswer An answer from stored reports (docs/history.md).
 * @property {number} start
 * @property {number} end
 * @property {number} n_reports
 * @property {number} scanned
 * @property {number} fraction
 * @property {string} query
 * @property {number} serial
 * @property {string} source
 * @property {Record<string, number>} budget
 * @property {number} held_back
 * @property {string[]} reading
 * @property {string|null} by
 * @property {boolean} simultaneous
 * @property {unknown[]} labels
 * @property {number[]} estimate
 * @property {unknown[]} variance Of each proportion; what `interval` uses.
 * @property {number} n Reports received.
 * @property {unknown[]|null} [covariance] Of the proportions, if there are at most
 *   `LARGEST_COVARIANCE`.
 * @property {number|null} [population] The size of the population, if known: as n approaches it,
 *   only the coins' error remains.
 * @property {string} [mechanism]
 * @property {number|null} [epsilon_local] Local: the loss against anyone who knows who sent a
 *   report.
 * @property {number|null} [epsilon_sampled] The loss against anyone who does not know who took
 *   part, in a crowd of `sampled_crowd`, except with `sampled_delta`.
 * @property {number|null} [delta_sampled]
 * @property {number|null} [sampled_crowd]
 * @property {[unknown[], unknown[]]|null} [support] P(report supports the label | the label is
 *   true) and P(… | it is not), where reports either support a label or do not.
 * @property {string[]} [notes]
 * @property {unknown[]|null} [degrees] Degrees of freedom of each variance, where they are not n -
 *   1.
 * @property {[number, Estimate][]} [strata] The weighted estimates that this one is the sum of, if
 *   it is.
 * @property {number[]|null} [unbiased] The proportions before `consistent` changed them.
 * @property {ReportCounts|null} [reports] The counts it was solved from, for windows of a query.
 * @property {boolean} [exclusive] Whether a person has exactly one label, so that the proportions
 *   sum to 1. False for multiple choice.
 * @property {[unknown[], unknown[], unknown[]]|null} [score_law] For each label, two coins and a
 *   number of reports with the same variance at any proportion, where `support` and n do not say it
 *   (`deniable.estimation.score_laws`).
 * @property {unknown[]|null} [rare] With `score_law`: for each label, whether so few reports may
 *   support it that its limits must be exact.
 * @property {boolean} [conservative] Whether the variance is an upper bound, so that intervals
 *   cover at least as often as stated.
 * @property {number[]} stderr Standard errors.
 * @property {(number|null)[]} low
 * @property {(number|null)[]} high Limits that cover with `confidence`; null for an infinite one.
 * @property {number} confidence
 * @property {boolean[]} covers_more Whether they cover at least, not just, as often.
 * @property {HistoryPart[]} parts
 * @property {Record<string, unknown>|null} trend
 * @property {AgainstDocument|null} against
 * @property {number} epsilon_spent
 * @property {string} statement
 *
 * @typedef {object} Design A design; or, if it is not feasible, why not, and what comes closest.
 * @property {boolean} feasible
 * @property {number} epsilon_sampled
 * @property {number} delta_sampled
 * @property {number|null} sampled_crowd
 * @property {number} population
 * @property {number} epsilon
 * @property {number} margin
 * @property {number} proportion
 * @property {number} cv The standard error over the proportion.
 * @property {number} sampling
 * @property {number} reports
 * @property {Record<string, unknown>} mechanism
 * @property {number} report_bytes
 * @property {number[]} reaches The ± at each of the guessed proportions.
 * @property {RiskDocument[]} risk
 * @property {number} every Seconds.
 * @property {PlannedCost} cost
 * @property {[number, number][]} curve Epsilons, and the ± at each.
 * @property {string} [problem]
 * @property {Record<string, number>} [nearest]
 * @property {number|null} [detectable_difference]
 * @property {string} [reason]
 * @property {PlanAlternative[]} [alternatives]
 *
 * @typedef {object} DraftCheck What is right or wrong with a field.
 * @property {string} field
 * @property {'ok'|'hint'|'bad'} level
 * @property {string} text
 * @property {number|null} place Which bucket or column, if it is one.
 *
 * @typedef {object} PublicQuery A query as it was signed.
 * @property {number} epsilon_sampled
 * @property {number} delta_sampled
 * @property {number|null} sampled_crowd
 * @property {string} id
 * @property {number} serial
 * @property {number} published
 * @property {string} published_time
 * @property {number|null} stopped
 * @property {string|null} stopped_time
 * @property {SignedDocument} signed
 * @property {string[]} labels
 * @property {number} epsilon_local
 * @property {number} epsilon_life
 * @property {PublicEnvelope|null} envelope
 * @property {PublicVersion[]} versions
 * @property {boolean} public_results
 * @property {string} summary
 *
 * @typedef {object} PublicKey A key for checking signed queries.
 * @property {string} id
 * @property {string} owner
 * @property {string} public
 * @property {boolean} revoked
 *
 * @typedef {object} Person What the owner of a vault sees.
 * @property {number} now
 * @property {string} vault
 * @property {Record<string, string[]>} granted The columns of each table that may be asked about.
 * @property {string[]} proxies
 * @property {number} epsilon_per_answer
 * @property {BalanceDocument|null} total
 * @property {AnalystBalance[]} analysts
 * @property {ReceiptDocument[]} receipts
 *
 * @typedef {object} ConservationStatement What became of the shares of a window.
 * @property {Record<string, Account>} proxies
 * @property {boolean} balanced Whether every share has an outcome.
 *
 * @typedef {object} Estimate Estimated proportions of the population, one per label, with the
 *   covariance of their errors.
 * @property {unknown[]} labels
 * @property {number[]} estimate
 * @property {unknown[]} variance Of each proportion; what `interval` uses.
 * @property {number} n Reports received.
 * @property {unknown[]|null} [covariance] Of the proportions, if there are at most
 *   `LARGEST_COVARIANCE`.
 * @property {number|null} [population] The size of the population, if known: as n approaches it,
 *   only the coins' error remains.
 * @property {string} [mechanism]
 * @property {number|null} [epsilon_local] Local: the loss against anyone who knows who sent a
 *   report.
 * @property {number|null} [epsilon_sampled] The loss against anyone who does not know who took
 *   part, in a crowd of `sampled_crowd`, except with `sampled_delta`.
 * @property {number|null} [delta_sampled]
 * @property {number|null} [sampled_crowd]
 * @property {[unknown[], unknown[]]|null} [support] P(report supports the label | the label is
 *   true) and P(… | it is not), where reports either support a label or do not.
 * @property {[unknown, unknown]|null} [window]
 * @property {string[]} [notes]
 * @property {unknown[]|null} [degrees] Degrees of freedom of each variance, where they are not n -
 *   1.
 * @property {[number, Estimate][]} [strata] The weighted estimates that this one is the sum of, if
 *   it is.
 * @property {number[]|null} [unbiased] The proportions before `consistent` changed them.
 * @property {ReportCounts|null} [reports] The counts it was solved from, for windows of a query.
 * @property {boolean} [exclusive] Whether a person has exactly one label, so that the proportions
 *   sum to 1. False for multiple choice.
 * @property {[unknown[], unknown[], unknown[]]|null} [score_law] For each label, two coins and a
 *   number of reports with the same variance at any proportion, where `support` and n do not say it
 *   (`deniable.estimation.score_laws`).
 * @property {unknown[]|null} [rare] With `score_law`: for each label, whether so few reports may
 *   support it that its limits must be exact.
 * @property {boolean} [conservative] Whether the variance is an upper bound, so that intervals
 *   cover at least as often as stated.
 * @property {number[]} stderr Standard errors.
 * @property {(number|null)[]} low
 * @property {(number|null)[]} high Limits that cover with `confidence`; null for an infinite one.
 * @property {number} confidence
 * @property {boolean[]} covers_more Whether they cover at least, not just, as often.
 * @property {string} [type]
 *
 * @typedef {object} ReportCounts Counts, and how they were solved.
 * @property {Record<string, unknown>} mechanism The mechanism's description; the labels are those
 *   of the estimate.
 * @property {number|null} [population] What the reports were a sample of; over several epochs,
 *   person-epochs.
 * @property {number} [repeats] How often the same coins were counted.
 * @property {number[]} counts
 * @property {number} n
 * @property {number} [nothing] Messages with nothing to report, if there were any.
 * @property {string} [type]
 *
 * @typedef {object} ScheduleDocument When a query is asked; lengths in seconds.
 * @property {number} origin
 * @property {string} origin_time
 * @property {number} expires
 * @property {string} expires_time
 * @property {number} every
 * @property {number} window
 * @property {number} slide
 *
 * @typedef {object} ColumnDocument A column of a query's answers.
 * @property {string} name
 * @property {string[]} labels
 *
 * @typedef {object} Budget Each may be left open. Devices enforce `epsilon`; a plan observes all of
 *   them (docs/queries.md).
 * @property {number|null} epsilon The most one person may lose over the query's whole life, against
 *   anyone who sees who answered; null for no bound.
 * @property {number|null} margin The half-width of the 95 % interval the analyst wants for each
 *   proportion; null if left open.
 * @property {number|null} epsilon_per_answer Local, of one epoch's answer.
 * @property {number|null} sampled Against anyone who cannot tell who answered, over the query's
 *   life, in a crowd of the people asked (docs/privacy.md).
 * @property {number|null} sampled_per_answer
 * @property {number|null} zero_knowledge With respect to sampling (Quoc 2017, theorem C.4), over
 *   the query's life.
 * @property {number|null} zero_knowledge_per_answer
 * @property {number|null} relative_error Instead of `margin`: the half-width relative to the
 *   proportion, at `proportion`.
 * @property {number|null} proportion The proportion that the margin refers to; without it, `margin`
 *   applies to every proportion.
 * @property {number|null} answers_per_second What may be sent to the aggregator at the peak of an
 *   epoch.
 * @property {number|null} bytes_per_day What one device may send, over all proxies, on average.
 * @property {number|null} latency Seconds, or a duration, from the end of a window to its result.
 * @property {number|null} money_per_month By the figures and prices of `deniable size`.
 * @property {number|null} error `margin`, under the key of release 0.1.0.
 * @property {number|null} wish The target half-width, however it was stated.
 *
 * @typedef {object} LatestWindow The newest window of a query, in brief.
 * @property {number} number
 * @property {number} index
 * @property {number} start
 * @property {string} start_time
 * @property {number} end
 * @property {string} end_time
 * @property {'complete'|'withheld'|'proxy down'|'malformed'|'incomplete'} condition
 * @property {number} n
 *
 * @typedef {object} OverdueWindow The first window of a query that should have been released and
 *   was not.
 * @property {number} index
 * @property {number} start
 * @property {string} start_time
 * @property {number} end
 * @property {string} end_time
 * @property {number} since When it should have been released at the latest.
 * @property {string} since_time
 * @property {string[]} proxies The proxies that have not marked its epochs.
 *
 * @typedef {object} FaultDocument Something that is wrong now.
 * @property {string} fault Its name in docs/runbook.md.
 * @property {string} subject What it affects: a proxy, or a part of the service.
 * @property {string} detail
 *
 * @typedef {object} ProxyHealth How a proxy is doing.
 * @property {string} name
 * @property {string} condition "up", "behind" or "down".
 * @property {number[]} position How far its log is counted: one offset per partition.
 * @property {number} lag Seconds since the end (plus the query's own grace) of the first epoch that
 *   it has not marked; 0 if there is none.
 * @property {number} waiting
 * @property {string} problem Why its log cannot be read, or why it cannot do its work; empty if all
 *   is well.
 * @property {string} fault The name of the fault behind that (`deniable.service.faults`).
 * @property {number} backlog Blocks of its log that are not counted yet, as far as the log reports
 *   them.
 * @property {number} mark_age Seconds since the aggregator last found one of its marks, or since
 *   the aggregator began to look.
 *
 * @typedef {object} Losses
 * @property {number} local
 * @property {number} sampled
 * @property {number} sampled_delta
 * @property {number|null} sampled_crowd
 *
 * @typedef {object} HistoryPart Which part it is; with its estimate, unless that is withheld.
 * @property {string} name
 * @property {number} n
 * @property {'complete'|'withheld'} condition
 * @property {unknown[]} [labels]
 * @property {number[]} [estimate]
 * @property {unknown[]} [variance] Of each proportion; what `interval` uses.
 * @property {unknown[]|null} [covariance] Of the proportions, if there are at most
 *   `LARGEST_COVARIANCE`.
 * @property {number|null} [population] The size of the population, if known: as n approaches it,
 *   only the coins' error remains.
 * @property {string} [mechanism]
 * @property {number|null} [epsilon_local] Local: the loss against anyone who knows who sent a
 *   report.
 * @property {number|null} [epsilon_sampled] The loss against anyone who does not know who took
 *   part, in a crowd of `sampled_crowd`, except with `sampled_delta`.
 * @property {number|null} [delta_sampled]
 * @property {number|null} [sampled_crowd]
 * @property {[unknown[], unknown[]]|null} [support] P(report supports the label | the label is
 *   true) and P(… | it is not), where reports either support a label or do not.
 * @property {string[]} [notes]
 * @property {unknown[]|null} [degrees] Degrees of freedom of each variance, where they are not n -
 *   1.
 * @property {[number, Estimate][]} [strata] The weighted estimates that this one is the sum of, if
 *   it is.
 * @property {number[]|null} [unbiased] The proportions before `consistent` changed them.
 * @property {ReportCounts|null} [reports] The counts it was solved from, for windows of a query.
 * @property {boolean} [exclusive] Whether a person has exactly one label, so that the proportions
 *   sum to 1. False for multiple choice.
 * @property {[unknown[], unknown[], unknown[]]|null} [score_law] For each label, two coins and a
 *   number of reports with the same variance at any proportion, where `support` and n do not say it
 *   (`deniable.estimation.score_laws`).
 * @property {unknown[]|null} [rare] With `score_law`: for each label, whether so few reports may
 *   support it that its limits must be exact.
 * @property {boolean} [conservative] Whether the variance is an upper bound, so that intervals
 *   cover at least as often as stated.
 * @property {number[]} [stderr] Standard errors.
 * @property {(number|null)[]} [low]
 * @property {(number|null)[]} [high] Limits that cover with `confidence`; null for an infinite one.
 * @property {number} [confidence]
 * @property {boolean[]} [covers_more] Whether they cover at least, not just, as often.
 *
 * @typedef {object} AgainstDocument The first period minus the second, as a whole and part by part.
 * @property {number} start
 * @property {number} end
 * @property {number} n_reports
 * @property {number} scanned
 * @property {number} fraction
 * @property {HistoryEstimate} estimate
 * @property {DifferenceDocument} difference
 * @property {PartDifference[]} parts
 *
 * @typedef {object} RiskDocument What a person risks over some answers.
 * @property {'answer'|'month'|'life'} over
 * @property {number} answers
 * @property {number} epsilon
 * @property {number} factor By how much the odds of any guess about the person can change.
 * @property {number} prior
 * @property {number} belief What a guess of probability `prior` can become.
 * @property {''|'replayed'|'silent'} note
 *
 * @typedef {object} PlannedCost What a month of a query moves, and what that costs at the analyst's
 *   price.
 * @property {number} share_bytes
 * @property {number} device_bytes
 * @property {number} proxy_shares
 * @property {number} proxy_bytes
 * @property {number} price
 *
 * @typedef {object} PlanAlternative What changing one thing would do.
 * @property {'margin'|'epsilon'|'population'} changed
 * @property {number} population
 * @property {number} margin
 * @property {number} epsilon
 *
 * @typedef {object} SignedDocument A signed query, as `SignedQuery.to_bytes` writes it; with the
 *   controller's version, if that is one.
 * @property {string} format
 * @property {string} query
 * @property {string} key
 * @property {string} signature
 * @property {string} [version]
 * @property {string} [version_signature]
 *
 * @typedef {object} PublicEnvelope What the controller may choose.
 * @property {[number, number]} epsilon
 *
 * @typedef {object} PublicVersion A version of a public query.
 * @property {number} serial
 * @property {number} published
 * @property {string} published_time
 * @property {number} epsilon_local
 *
 * @typedef {object} BalanceDocument What an analyst, or all together, may still learn.
 * @property {number|null} limit
 * @property {number} spent
 * @property {number|null} left
 * @property {string|null} period
 *
 * @typedef {object} AnalystBalance
 * @property {number|null} limit
 * @property {number} spent
 * @property {number|null} left
 * @property {string|null} period
 * @property {string} name
 * @property {boolean} refused
 *
 * @typedef {object} ReceiptDocument A receipt in JSON.
 * @property {number} time
 * @property {string} outcome
 * @property {string|null} reason
 * @property {string|null} detail
 * @property {string} analyst
 * @property {string} query
 * @property {number} serial
 * @property {string} question
 * @property {number|null} epoch
 * @property {number} epsilon
 * @property {number|null} left
 * @property {boolean} verified
 * @property {number} first
 * @property {number} times
 *
 * @typedef {object} Account What was received from one proxy, and what became of it.
 * @property {number} received
 * @property {number} counted
 * @property {number} orphaned
 * @property {number} duplicate
 * @property {number} late
 * @property {number} malformed
 * @property {number} waiting Shares without an outcome yet.
 *
 * @typedef {object} HistoryEstimate Estimated proportions of the population, one per label, with
 *   the covariance of their errors.
 * @property {unknown[]} labels
 * @property {number[]} estimate
 * @property {unknown[]} variance Of each proportion; what `interval` uses.
 * @property {number} n Reports received.
 * @property {unknown[]|null} [covariance] Of the proportions, if there are at most
 *   `LARGEST_COVARIANCE`.
 * @property {number|null} [population] The size of the population, if known: as n approaches it,
 *   only the coins' error remains.
 * @property {string} [mechanism]
 * @property {number|null} [epsilon_local] Local: the loss against anyone who knows who sent a
 *   report.
 * @property {number|null} [epsilon_sampled] The loss against anyone who does not know who took
 *   part, in a crowd of `sampled_crowd`, except with `sampled_delta`.
 * @property {number|null} [delta_sampled]
 * @property {number|null} [sampled_crowd]
 * @property {[unknown[], unknown[]]|null} [support] P(report supports the label | the label is
 *   true) and P(… | it is not), where reports either support a label or do not.
 * @property {string[]} [notes]
 * @property {unknown[]|null} [degrees] Degrees of freedom of each variance, where they are not n -
 *   1.
 * @property {[number, Estimate][]} [strata] The weighted estimates that this one is the sum of, if
 *   it is.
 * @property {number[]|null} [unbiased] The proportions before `consistent` changed them.
 * @property {ReportCounts|null} [reports] The counts it was solved from, for windows of a query.
 * @property {boolean} [exclusive] Whether a person has exactly one label, so that the proportions
 *   sum to 1. False for multiple choice.
 * @property {[unknown[], unknown[], unknown[]]|null} [score_law] For each label, two coins and a
 *   number of reports with the same variance at any proportion, where `support` and n do not say it
 *   (`deniable.estimation.score_laws`).
 * @property {unknown[]|null} [rare] With `score_law`: for each label, whether so few reports may
 *   support it that its limits must be exact.
 * @property {boolean} [conservative] Whether the variance is an upper bound, so that intervals
 *   cover at least as often as stated.
 * @property {number[]} stderr Standard errors.
 * @property {(number|null)[]} low
 * @property {(number|null)[]} high Limits that cover with `confidence`; null for an infinite one.
 * @property {number} confidence
 * @property {boolean[]} covers_more Whether they cover at least, not just, as often.
 *
 * @typedef {object} DifferenceDocument One period or part minus another.
 * @property {unknown[]} labels
 * @property {(number|null)[]} difference
 * @property {(number|null)[]} stderr
 * @property {(number|null)[]} low
 * @property {(number|null)[]} high
 * @property {(number|null)[]} p
 * @property {number[]} n
 * @property {Overall} overall
 *
 * @typedef {object} PartDifference One part minus that of the same name.
 * @property {unknown[]} labels
 * @property {(number|null)[]} difference
 * @property {(number|null)[]} stderr
 * @property {(number|null)[]} low
 * @property {(number|null)[]} high
 * @property {(number|null)[]} p
 * @property {number[]} n
 * @property {Overall} overall
 * @property {string} name
 *
 * @typedef {object} Overall
 * @property {number|null} chi_square
 * @property {number|null} degrees
 * @property {number|null} p
 */
export {};
