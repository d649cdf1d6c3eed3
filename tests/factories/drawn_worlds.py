"""Strategies for small worlds of packages and for what is asked of them."""

from itertools import product

from hypothesis import strategies as st

from tests.factories.worlds import Made, World

_NAMES = ("a", "b", "c", "d")
#: Required now and then, and never there.
_REQUIRED = (*_NAMES, "absent")
_VERSIONS = ("1.0", "1.5", "2.0", "3.0rc1")
_EXTRAS = ("x", "y")
_MARKERS = (
    "", "", "", "python_version < '3.12'", "sys_platform == 'win32'", "extra == 'x'",
    "extra == 'y' and python_version >= '3.8'", "extra == 'x' or sys_platform == 'linux'",
)  # fmt: skip

_names = st.sampled_from(_REQUIRED)
_asked_extras = st.sampled_from(("", "", "[x]", "[y]", "[x,y]"))
_specifiers = st.sampled_from(("", "", ">=1.5", "<2", "==1.0", ">=9"))


def _line(name: str, extras: str, specifier: str, marker: str) -> str:
    return f"{name}{extras}{specifier}" + (f" ; {marker}" if marker else "")


_requirements = st.builds(_line, _names, _asked_extras, _specifiers, st.sampled_from(_MARKERS))


@st.composite
def _made(draw: st.DrawFn, name: str, version: str) -> Made:
    return Made(
        name,
        version,
        requires=tuple(draw(st.lists(_requirements, max_size=3, unique=True))),
        state=draw(st.sampled_from(("solved", "solved", "solved", "solved", "unsolvable"))),
        requires_python=draw(st.sampled_from((None, None, ">=3.8", ">=3.12"))),
        yanked=draw(st.sampled_from((False, False, False, True))),
        wheels=draw(
            st.sampled_from((("py3-none-any",), ("py3-none-any",), ("cp311-cp311-win_amd64",)))
        ),
        files_complete=draw(st.sampled_from((True, True, False))),
        extras=_EXTRAS,
    )


@st.composite
def _worlds(draw: st.DrawFn) -> World:
    places = list(product(_NAMES, _VERSIONS))
    chosen = draw(st.lists(st.sampled_from(places), min_size=1, max_size=10, unique=True))
    return [draw(_made(name, version)) for name, version in chosen]


#: One version of a package at most once; most can be installed.
worlds = _worlds()
#: Roots, with and without extras, some of which hold nowhere or name what is not there.
requests = st.lists(_requirements, min_size=1, max_size=3, unique=True)
