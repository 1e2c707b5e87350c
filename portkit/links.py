"""What one file needs to know of the others: plain data, worked out by `project.py`, used by `names.py`."""

from __future__ import annotations

from dataclasses import dataclass, field

from portkit.finding import Alias


@dataclass(frozen=True)
class Meaning:
    """What a name of another module of the program is."""

    name: str  # "torch.cuda.synchronize"
    steps: tuple[Alias, ...]  # the statements that made it so, in the files where they stand
    assigned: bool = False  # an assignment gave it its name: the mention there is what is reported
    several: bool = False  # one of several things, between which a condition decides


@dataclass(frozen=True)
class Links:
    """What the names that one file takes from other modules of the program mean."""

    names: tuple[tuple[str, Meaning], ...] = ()  # by the name as the file resolves it: "utils.sync"
    values: tuple[tuple[str, str], ...] = ()  # texts that other modules hold
    parameters: tuple[tuple[str, tuple[str, ...]], ...] = ()  # of functions and classes of other modules
    stars: tuple[str, ...] = ()  # star-imported modules of which all names are known
    sinks: tuple[str, ...] = ()  # names of this module that another one uses as a device
    hidden: tuple[str, ...] = ()  # names of this module that a star import below them binds anew
    settings: tuple[str, ...] = ()  # options and fields of this file that another one uses as a device
    needed: tuple[str, ...] = ()  # names that this module imports and another one takes from it
    own_cuda: tuple[str, ...] = ()  # classes of other modules that define a method `cuda` and no `to`
    held: str = ""  # why what moves only together with code of other modules can't be moved

    def __bool__(self) -> bool:
        return self != NONE

    @property
    def words(self) -> bytes:
        """What these links bring into a file, for rules that look for words."""
        return b"\0".join(meaning.name.lower().encode() for _, meaning in self.names)


NONE = Links()


@dataclass
class Lookup:
    """Links, arranged for looking up."""

    links: Links
    names: dict[str, Meaning] = field(init=False)
    values: dict[str, str] = field(init=False)
    parameters: dict[str, tuple[str, ...]] = field(init=False)
    own: frozenset[str] = field(init=False)  # names that other modules of the program bind, and these modules

    def __post_init__(self) -> None:
        self.names = dict(self.links.names)
        self.values = dict(self.links.values)
        self.parameters = dict(self.links.parameters)
        used = (*self.names, *self.values, *self.parameters)
        self.own = frozenset(name for full in used for name in (full, full.rpartition(".")[0]))
