"""Verdicts on many comparisons at once: the statistical tests that tell claims from noise.

An answer is one output: a report, a page of ``thoth stacks``, a run of ``thoth guard``. All
comparisons of an answer form one family. This bounds the chance of even one false claim in the
answer, no matter how many stacks, packages and indicators it covers. Arrays have one entry per
comparison.
"""

from dataclasses import dataclass
from enum import StrEnum

from adviser.scoring.effects import Effects, chance_at_most, intervals
from adviser.scoring.lazy_numpy import BoolArray, FloatArray, IntArray, np

#: Chance of even one false claim in an answer, for the worst case of true differences of δ.
ALPHA = 0.05

#: Chance of even one claimed difference in an answer without any true difference, for any noise.
#: It shrinks in proportion below :data:`FULL_FREEDOM` degrees of freedom, which keeps it at about
#: 1 % for few jobs; from fourteen jobs on, δ keeps it there if jobs vary by 5 % or less.
ALPHA_NONE = 0.02

#: Degrees of freedom of the two stacks from which :data:`ALPHA_NONE` applies in full.
FULL_FREEDOM = 13.0


class Verdict(StrEnum):
    """The verdict on a candidate compared with the baseline."""

    FASTER = "faster"
    SLOWER = "slower"
    EQUIVALENT = "equivalent"
    UNDETERMINED = "undetermined"

    @property
    def settled(self) -> bool:
        """Whether the verdict is ``faster``, ``slower`` or ``equivalent``."""
        return self is not Verdict.UNDETERMINED

    @property
    def different(self) -> bool:
        """Whether the verdict is ``faster`` or ``slower``."""
        return self in (Verdict.FASTER, Verdict.SLOWER)


#: The verdicts, at the indexes that :attr:`Judgements.verdicts` uses.
VERDICTS = (Verdict.UNDETERMINED, Verdict.EQUIVALENT, Verdict.SLOWER, Verdict.FASTER)


def family_document(comparisons: int) -> dict[str, float]:
    """The number of comparisons that share an error rate, as JSON values."""
    return {"comparisons": comparisons, "error_rate": ALPHA}


def family_text(comparisons: int) -> str:
    """The number of comparisons that share an error rate, as a sentence.

    >>> family_text(3)
    'The chance of even one false claim among these 3 comparisons is at most 5 %.'
    """
    among = f"among these {comparisons} comparisons" if comparisons > 1 else "of this comparison"
    return f"The chance of even one false claim {among} is at most {ALPHA:.0%}.".replace("%", " %")


@dataclass(frozen=True, slots=True)
class Judgements:
    """The verdicts on a family of comparisons.

    :param verdicts: indexes into :data:`VERDICTS`
    :param p_value: Holm-adjusted p-value of the verdict that the observed effect suggests: a
        difference if it is beyond δ, else equivalence; 1 if it was not tested
    :param low: lower end of the two-sided 95 % interval, natural log
    :param high: upper end of this interval
    """

    verdicts: IntArray
    p_value: FloatArray
    low: FloatArray
    high: FloatArray

    def verdict(self, i: int) -> Verdict:
        """The verdict at index ``i``."""
        return VERDICTS[self.verdicts[i]]


def holm_adjusted(p_values: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Adjust p-values so that each may be compared with α.

    A step-down method. It is valid under any dependence, which matters because all candidates share
    the baseline (Holm 1979, "A simple sequentially rejective multiple test procedure", Scand. J.
    Statist. 6:65–70, with weights as in its section 4).

    :param weights: share of α for each, in any unit, positive; equal by default

    >>> holm_adjusted(np.array([0.04, 0.01, 0.03])).tolist()
    [0.06, 0.03, 0.06]
    >>> holm_adjusted(np.array([0.01, 0.01]), np.array([1.0, 3.0])).round(4).tolist()
    [0.0133, 0.0133]
    """
    shares = np.ones_like(p_values) if weights is None else weights
    scaled = p_values / shares
    order = np.argsort(scaled, kind="stable")
    left = np.cumsum(shares[order][::-1])[::-1]
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled[order] * left), 1.0)
    return adjusted


def judge(
    effects: Effects,
    tested: BoolArray,
    log_margin: FloatArray | float,
    own_freedom: FloatArray | float = FULL_FREEDOM,
    weights: FloatArray | None = None,
    alpha: float = ALPHA,
) -> Judgements:
    """Judge all comparisons of one answer as one family of tests.

    A difference is claimed if two tests agree after Holm's adjustment: ``|d|`` exceeds δ, at
    :data:`ALPHA` (interval null hypothesis, both signs together; Murphy & Myors 1999,
    doi:10.1037/0021-9010.84.2.234), and ``d`` is not zero, at :data:`ALPHA_NONE`. Equivalence is
    claimed if both one-sided tests reject a difference of δ (TOST; Schuirmann 1987,
    doi:10.1007/BF01068419). At most one of the two claims about a comparison can be false, so both
    use the same part of α.

    :param tested: whether there are enough jobs; untested comparisons do not count in Holm's
        adjustment
    :param log_margin: ``ln(1 + δ)``, one for all or one each
    :param own_freedom: degrees of freedom from the two stacks alone
    :param weights: share of α for each; see :func:`holm_adjusted`
    :param alpha: chance of even one false claim
    """
    margin = np.broadcast_to(np.asarray(log_margin, dtype=np.float64), effects.d.shape)
    size = Effects(np.abs(effects.d), effects.standard_error, effects.degrees_of_freedom)
    different = np.maximum(
        chance_at_most(size, margin) + chance_at_most(size, -margin),
        2 * chance_at_most(size, 0.0) * alpha / none_level(own_freedom, alpha),
    )
    inside = Effects(-size.d, size.standard_error, size.degrees_of_freedom)
    p = np.ones_like(effects.d)
    beyond = size.d > margin
    raw = np.minimum(np.where(beyond, different, chance_at_most(inside, -margin)), 1.0)
    p[tested] = holm_adjusted(raw[tested], None if weights is None else weights[tested])
    settled = p < alpha
    low, high = intervals(effects)
    return Judgements(
        np.select([settled & beyond & (effects.d > 0), settled & beyond, settled], [3, 2, 1], 0),
        p,
        low,
        high,
    )


def none_level(own_freedom: FloatArray | float, alpha: FloatArray | float = ALPHA) -> FloatArray:
    """Significance level of the test for any difference, given the two stacks' degrees of freedom.

    >>> none_level(np.array([4.0, 9.0, 13.0, 40.0])).round(4).tolist()
    [0.0062, 0.0138, 0.02, 0.02]
    """
    share = np.minimum(1.0, np.asarray(own_freedom, dtype=np.float64) / FULL_FREEDOM)
    return np.asarray(np.maximum(share, 1e-9) * ALPHA_NONE * (alpha / ALPHA))
