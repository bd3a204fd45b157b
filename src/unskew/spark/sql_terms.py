"""Parts of an expression: SQL text wherever there is one, else columns.

An operation between two columns costs PySpark calls to the JVM that take about a millisecond together; a routed join
has hundreds. Text is put together in Python and handed over at once. But the column of a user, such as
`F.lower("name")`, has no text, and an expression over it is made of columns. Both give Spark the same expression.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, TypeAlias

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

Term: TypeAlias = "str | Column"
"""SQL text, which may be an argument or an operand wherever it stands; or a column."""


def as_column(term: Term) -> Column:
    """The term as a column."""
    return F.expr(term) if isinstance(term, str) else term


def call(function: str, *arguments: Term) -> Term:
    """A function of Spark."""
    texts = [each for each in arguments if isinstance(each, str)]
    if len(texts) == len(arguments):
        return f"{function}({', '.join(texts)})"
    column: Column = getattr(F, function)(*map(as_column, arguments))
    return column


def named(term: Term, name: str) -> Term:
    """The term as a column of a result, or of a struct, with a name that needs no quotes."""
    return f"{term} as {name}" if isinstance(term, str) else term.alias(name)


def at_most(numbers: Sequence[Term], most: int) -> Term:
    """Whether the sum of the numbers is at most that."""
    if all(isinstance(number, str) for number in numbers):
        return f"({' + '.join(map(str, numbers))} <= {most})"
    return reduce(add, map(as_column, numbers)) <= most


def minus(number: Term) -> Term:
    """The number with the other sign."""
    return f"(-{number})" if isinstance(number, str) else -number


def equal(a: Term, b: Term) -> Term:
    """Whether both are equal."""
    return f"({a} = {b})" if isinstance(a, str) and isinstance(b, str) else as_column(a) == as_column(b)


def get(array: str, index: Term) -> Term:
    """The element of a literal array, counted from 0; null outside."""
    return call("get", array, index)


def low_bits(number: Term, shift: int, mask: int) -> Term:
    """The bits of a 64-bit number from number `shift` on that the mask has, as an int."""
    if isinstance(number, str):
        return f"cast((shiftrightunsigned({number}, {shift}) & {mask}) as int)"
    return F.shiftrightunsigned(number, shift).bitwiseAND(F.lit(mask)).cast("int")


def remainder(number: Term, divisor: int) -> Term:
    """What is left of a number, 0 or more, as an int."""
    if divisor & (divisor - 1) == 0:
        if isinstance(number, str):
            return f"cast(({number} & {divisor - 1}) as int)"
        return number.bitwiseAND(F.lit(divisor - 1)).cast("int")
    if isinstance(number, str):
        return f"cast(pmod({number}, {divisor}) as int)"
    return F.pmod(number, F.lit(divisor)).cast("int")


def first_of(cases: Sequence[tuple[Term, Term]], otherwise: Term) -> Term:
    """The value of the first condition that holds."""
    terms = [otherwise, *(term for case in cases for term in case)]
    if all(isinstance(term, str) for term in terms):
        branches = "".join(f" when {condition} then {value}" for condition, value in cases)
        return f"(case{branches} else {otherwise} end)"
    (condition, value), *more = cases
    column = F.when(as_column(condition), as_column(value))
    for condition, value in more:
        column = column.when(as_column(condition), as_column(value))
    return column.otherwise(as_column(otherwise))
