"""Frozen values: what `typing.NamedTuple` gives, in a tenth of the time.

NamedTuple compiles a constructor for each class, a fifth of a millisecond forty times over, before the first worker
can start. `Value` has one constructor for all classes. To a type checker it is NamedTuple itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["Value"]

if TYPE_CHECKING:
    from typing import NamedTuple as Value
else:
    from operator import itemgetter

    try:
        from _collections import _tuplegetter as field_getter  # the fast one that namedtuple uses, from Python 3.8 on
    except ImportError:

        def field_getter(index, doc):
            return property(itemgetter(index), doc=doc)

    class _ValueType(type):
        """Makes the fields of a tuple out of a class body's annotations."""

        def __new__(cls, name, bases, body):
            fields = tuple(body.get("__annotations__", ()))
            defaults = {field: body[field] for field in fields if field in body}
            body.update({field: field_getter(index, "") for index, field in enumerate(fields)})
            body.update(__slots__=(), _fields=fields, _field_defaults=defaults)
            return super().__new__(cls, name, bases, body)

    class Value(tuple, metaclass=_ValueType):
        """The base of all values: fields by position or name, equality, `_replace`; never changed in place."""

        def __new__(cls, *args, **named):
            if named or len(args) != len(cls._fields):
                args = _completed(cls, args, named)
            return tuple.__new__(cls, args)

        _make = classmethod(tuple.__new__)  # of all fields' values, without a Python frame: for many thousands

        def _asdict(self):
            return dict(zip(self._fields, self))

        def _replace(self, **changes):
            return type(self)(**{**self._asdict(), **changes})

        def __repr__(self):
            inside = ", ".join(f"{field}={value!r}" for field, value in zip(self._fields, self))
            return f"{type(self).__name__}({inside})"

        def __getnewargs__(self):
            return tuple(self)

    def _completed(cls, args, named):
        """All fields' values in order; TypeError for what a constructor with this signature would refuse."""
        positional = dict(zip(cls._fields, args))
        unknown = [name for name in named if name not in cls._fields or name in positional]
        if unknown or len(args) > len(cls._fields):
            raise TypeError(f"{cls.__name__} takes {', '.join(cls._fields)}, each once; got {args!r} and {named!r}")
        values = {**cls._field_defaults, **positional, **named}
        missing = [field for field in cls._fields if field not in values]
        if missing:
            raise TypeError(f"{cls.__name__}: missing {', '.join(missing)}")
        return [values[field] for field in cls._fields]
