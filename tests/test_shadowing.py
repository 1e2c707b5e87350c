"""Names that are shadowed, rebound, deleted, chosen between: what they mean, or that it is not known.

Each block of MEANINGS and VALUES begins with what `HERE(...)` is; `?` says that it is one of several things.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from test_names import asked

from portkit import engine
from portkit.finding import Support

MEANINGS = r"""
# torch.cuda ?
import torch
for i in x:
    HERE(torch.cuda)
    torch = fake

# None
import torch
del torch
HERE(torch.cuda)

# None
import torch
def f():
    global torch
    torch = fake
HERE(torch.cuda)

# torch.cuda ?
import torch
def f():
    if a:
        for b in c:
            global torch
            torch = fake
HERE(torch.cuda)

# None
def f():
    import torch
    def g():
        nonlocal torch
        torch = fake
    HERE(torch.cuda)

# None
def f():
    import torch
    def h():
        def g():
            nonlocal torch
            torch = fake
    HERE(torch.cuda)

# None
import torch
def f():
    def g():
        global torch
        torch = fake
    torch = 3
    HERE(torch.cuda)

# fake.cuda
import torch
def f():
    def g():
        global torch
    import fake as torch
    HERE(torch.cuda)

# torch.cuda ?
if a:
    import torch
else:
    import fake as torch
HERE(torch.cuda)

# torch.cuda.amp.autocast ?
if a:
    from torch.cuda.amp import autocast
else:
    from torch.amp import autocast
HERE(autocast)

# torch.cuda.amp.autocast ?
if a:
    from torch.cuda.amp import autocast
else:
    from contextlib import nullcontext as autocast
HERE(autocast)

# cupy.zeros
try:
    import cupy as xp
except ImportError:
    import numpy as xp
HERE(xp.zeros)

# cupy.zeros
import numpy as np
import cupy as np
HERE(np.zeros)

# cupy.zeros
def f():
    HERE(np.zeros)
import numpy as np
import cupy as np

# None
import torch
class A:
    torch = 3
    y = HERE(torch.cuda)

# None
class A:
    import torch
    def f(self): HERE(torch.cuda)

# torch.cuda
class A:
    import torch
    y = HERE(torch.cuda)

# torch.cuda
import torch
class A:
    torch = 3
    y = [HERE(torch.cuda) for i in z]

# None
import torch
y = [HERE(torch.cuda) for torch in z]

# torch.cuda ?
import torch
y = [(torch := fake) for i in z]
HERE(torch.cuda)

# None
import torch
if (torch := fake): pass
HERE(torch.cuda)

# None
import torch
match x:
    case torch: pass
HERE(torch.cuda)

# None
import torch
match x:
    case {'a': torch}: pass
HERE(torch.cuda)

# None
import torch
match x:
    case {**torch}: pass
HERE(torch.cuda)

# None
import torch
match x:
    case [*torch]: pass
HERE(torch.cuda)

# None
import torch
match x:
    case A() as torch: pass
HERE(torch.cuda)

# torch.cuda
import torch
match x:
    case torch.cuda: pass
HERE(torch.cuda)

# None
import torch
with a as torch: pass
HERE(torch.cuda)

# None
import torch
try: pass
except E as torch: pass
HERE(torch.cuda)

# None
import torch
torch += 1
HERE(torch.cuda)

# None
import torch
def f(x, *, torch=None): HERE(torch.cuda)

# None
import torch
def f(*torch): HERE(torch.cuda)

# None
import torch
def f(**torch): HERE(torch.cuda)

# None
import torch
f = lambda torch: HERE(torch.cuda)

# torch.cuda
import torch
f = lambda x: HERE(torch.cuda)

# None
import torch
class torch: pass
HERE(torch.cuda)

# None
import torch
def torch(): pass
HERE(torch.cuda)

# None
import torch
[a, (torch, b)] = x
HERE(torch.cuda)

# None
import torch
(a, *torch) = x
HERE(torch.cuda)

# None
import torch
for a, torch in x: pass
HERE(torch.cuda)

# None
from torch import cuda
def f():
    HERE(cuda)
    cuda = 1

# torch.cuda
import torch
globals()['torch'] = fake
HERE(torch.cuda)

# torch.cuda
import torch
exec(open('c.py').read())
HERE(torch.cuda)

# torch.cuda
import torch
def f(x, y=HERE(torch.cuda)):
    torch = 1

# torch.cuda
import torch
@HERE(torch.cuda)
def f():
    torch = 1

# None
import torch
def f():
    x = HERE(torch.cuda)
    def torch(): pass

# torch.cuda.amp
import torch.cuda as torch
HERE(torch.amp)

# torch.cuda
import torch
import torch.cuda
HERE(torch.cuda)

# torch.nn.cuda
import torch
import torch.nn as torch
HERE(torch.cuda)

# None
import torch
t = torch.cuda
def f():
    t = None
    HERE(t)

# torch.cuda
import torch
t = None
if a:
    t = torch.cuda
HERE(t)

# torch.cuda
import torch
t = torch.cuda
t = torch.cuda
HERE(t)

# None
import torch
t = torch.cuda if a else torch.xpu
HERE(t)

# torch.cuda
import torch
t = torch.cuda if a else torch.cuda
HERE(t)

# None
import torch
class A:
    def f(self):
        self.c = torch.cuda
class B:
    def g(self):
        HERE(self.c)

# None
import torch
class A:
    def f(self):
        self.c = torch.cuda
class B:
    def f(self):
        self.c = fake
    def g(self):
        HERE(self.c)

# torch.cuda
import torch
class A:
    def f(self):
        self.c = torch.cuda
    def g(self):
        HERE(self.c)
class B:
    def f(self):
        self.c = fake

# None
import torch
class A:
    def f(self):
        self.c = torch.cuda
    def g(self):
        HERE(self.c)
a = A()
a.c = fake

# None
import torch
class A:
    c = torch.cuda
    def g(self):
        HERE(self.c)

# None
import torch
class A:
    c = torch.cuda
    def f(self): self.c = fake
    def g(self):
        HERE(self.c)

# torch.cuda
import torch
class A:
    c = torch.cuda
HERE(A.c)

# None
import torch
class A:
    c = torch.cuda
A.c = fake
HERE(A.c)

# None
import torch
class A:
    def f(self):
        self.c = torch.cuda
    def c(self): pass
    def g(self):
        HERE(self.c)

# None
import torch
def f(self):
    self.c = torch.cuda
    HERE(self.c)

# torch.cuda
import torch
class A:
    def f(self):
        self.c, self.d = torch.cuda, torch.nn
        HERE(self.c)

# torch.cuda
import torch
class A(Base):
    def f(self):
        self.c = torch.cuda
        HERE(self.c)

# torch.cuda
import torch
class A:
    def f(self):
        self.c = torch.cuda
        setattr(self, n, 3)
        HERE(self.c)

# None
import torch
getattr = f
HERE(getattr(torch, 'cuda'))

# torch.cuda.Event
import torch
x = getattr(torch, 'cuda', None)
HERE(x.Event)

# torch.cuda
import torch
HERE(getattr(torch, 'cu' + 'da'))

# None
import torch, operator
HERE(operator.attrgetter('cuda.Event')(torch))

# None
import torch
HERE(torch.__dict__['cuda'])

# None
import torch, sys
HERE(sys.modules['torch'].cuda)

# torch.autocast
from functools import partial as p
import torch
f = p(torch.autocast, 'cuda')
HERE(f)

# None
import functools
import torch
f = functools.partial(p(torch.autocast, 'cuda'))
HERE(f)

# None
import torch
while a:
    t = torch.cuda
    t = fake
HERE(t)

# fake.cuda
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import torch
else:
    import fake as torch
HERE(torch.cuda)

# torch.cuda
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import torch
def f():
    import torch
    HERE(torch.cuda)

# torch.cuda
from a import *
from torch import *
HERE(cuda)

# torch.cuda
from torch import *
from a import *
HERE(cuda)

# None
def f(x):
    from torch import cuda
    return cuda
def g():
    HERE(cuda)

# torch.cuda
import torch
torch: Any
HERE(torch.cuda)

# None
import torch
async def f():
    async for torch in x:
        HERE(torch.cuda)

# None
import torch as t, torch
t = t
HERE(t.cuda)

# torch.cuda
try:
    import torch
except ImportError:
    torch = None
else:
    pass
HERE(torch.cuda)

# torch.cuda
try:
    import torch
    ok = True
except ImportError:
    class torch: pass
HERE(torch.cuda)

# apex.x
try:
    import apex as amp
except ImportError:
    amp = other
HERE(amp.x)

# apex.x
from contextlib import suppress
with suppress(ImportError):
    import apex
HERE(apex.x)
"""

VALUES = r"""
# None
device = 'cuda'
exec(open('configurator.py').read())
HERE(device)

# None
device = 'cuda'
globals()['device'] = x
HERE(device)

# None
device = 'cuda'
globals().update(config)
HERE(device)

# cuda
device = 'cuda'
config = {k: globals()[k] for k in keys}
HERE(device)

# cuda
device = 'cuda'
exec(code, {})
HERE(device)

# cuda
def f():
    device = 'cuda'
    exec(code)
    HERE(device)

# None
device = 'cuda'
def f():
    global device
    device = x
HERE(device)

# None
device = 'cuda'
del device
HERE(device)

# cuda
for i in x:
    HERE(device)
    device = 'cuda'

# None
device = 'cuda'
[(device := 'cpu') for i in x]
HERE(device)

# cuda
class A:
    device = 'cuda'
    def f(self): HERE(self.device)

# cuda
class A:
    device = 'cuda'
HERE(A.device)

# None
class A:
    device = 'cuda'
class B(A):
    device = 'cpu'
HERE(A.device)

# None
class A:
    device = 'cuda'
A.device = x
HERE(A.device)

# None
class A:
    device = 'cuda'
    def f(self): HERE(self.device)
    def g(self): self.device = 1

# None
class A:
    def f(self):
        self.d = 'cuda'
class B:
    def g(self): HERE(self.d)

# cuda
class A:
    def f(self):
        self.d = 'cuda'
class B(A):
    def g(self): HERE(self.d)

# None
class A:
    def f(self):
        self.d = 'cuda'
    def g(self):
        self.d += '1'
        HERE(self.d)

# cuda
class A:
    device = 'cuda'
    y = HERE(device)

# None
class A:
    device = 'cuda'
    def f(self): HERE(device)
"""


def _cases(text: str) -> list[Any]:
    blocks = [block.partition("\n") for block in re.split(r"\n\n(?=# )", text.strip())]
    return [pytest.param(code, first.removeprefix("# "), id=code) for first, _, code in blocks]


@pytest.mark.parametrize(("code", "expected"), _cases(MEANINGS))
def test_meaning(code: str, expected: str) -> None:
    ctx, node = asked(code)
    found = f"{ctx.resolve(node)}{' ?' if ctx.names.has_several_meanings(node) else ''}"
    assert found == expected


@pytest.mark.parametrize(("code", "expected"), _cases(VALUES))
def test_value(code: str, expected: str) -> None:
    ctx, node = asked(code)
    assert str(ctx.constant(node)) == expected


def test_a_name_with_several_meanings_is_reported_and_left_alone() -> None:
    code = """\
import torch
if old:
    from torch.cuda.amp import autocast
else:
    from torch.amp import autocast
with autocast():
    pass
"""
    found = [item for item in engine.check_text(code) if item.location.line == 6]
    assert [(item.rule, item.support, item.lossy, item.edits) for item in found] == [
        ("PK201", Support.UNKNOWN, True, ())
    ]
    assert "several" in found[0].note
