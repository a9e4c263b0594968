"""The examples of the documentation run, stubs say what there is, and everything has a docstring."""

import ast
import doctest
import importlib
import inspect
import pathlib
import re

import pytest

import fangorn
from conftest import ZOO

PACKAGE = pathlib.Path(fangorn.__file__).parent
NEEDS = {
    "from_xgboost": "xgboost",
    "from_lightgbm": "lightgbm",
    "from_catboost": "catboost",
    "from_sklearn": "sklearn",
    "from_treelite": "treelite",
}


def documented():
    for name in fangorn.__all__:
        thing = getattr(fangorn, name)
        if name == "__version__":
            continue
        yield name, thing
        if inspect.isclass(thing):
            for member, value in vars(thing).items():
                if not member.startswith("_") and value.__doc__:
                    yield f"{name}.{member}", value


@pytest.mark.parametrize(("name", "thing"), [*documented(), ("fangorn", fangorn)], ids=lambda it: it if isinstance(it, str) else "")
def test_examples_run(name, thing):
    assert thing.__doc__ and thing.__doc__.strip(), f"{name} has no docstring"
    pytest.importorskip(NEEDS.get(name, "numpy"))
    example = doctest.DocTestParser().get_doctest(inspect.cleandoc(thing.__doc__), {"zoo": ZOO}, name, None, 0)
    results = doctest.DocTestRunner().run(example)
    assert results.failed == 0


def test_the_module_of_torch():
    pytest.importorskip("torch")
    from fangorn import torch as module

    assert doctest.testmod(module, extraglobs={"zoo": ZOO}).failed == 0


@pytest.mark.parametrize(("text", "least"), [("README.md", 1), ("book/src/python.md", 4)])
def test_examples_of_texts_run(text, least, monkeypatch):
    """Blocks of Python in the README and in the book's chapter run one after the other, in the checkout."""
    pytest.importorskip("xgboost"), pytest.importorskip("pandas")
    monkeypatch.chdir(ZOO.parents[1])
    blocks = re.findall(r"^```python\n(.*?)^```", (ZOO.parents[1] / text).read_text(), re.M | re.S)
    assert len(blocks) >= least
    names = {}
    for block in blocks:
        if "import torch" in block or "fangorn.torch" in block:
            pytest.importorskip("torch")
        exec(compile(block, text, "exec"), names)


def members(stub, name):
    [found] = [node for node in stub.body if isinstance(node, ast.ClassDef) and node.name == name]
    return {node.name: node for node in found.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("name", ["Model", "Pipeline"])
def test_stubs_say_what_there_is(name):
    stub = members(ast.parse((PACKAGE / "_fangorn.pyi").read_text()), name)
    there = {member: value for member, value in vars(getattr(fangorn, name)).items() if not member.startswith("__")}
    assert {member for member in stub if not member.startswith("__")} == set(there)
    for member, value in there.items():
        if not callable(value):
            assert [ast.unparse(d) for d in stub[member].decorator_list] == ["property"], member
            continue
        arguments = stub[member].args
        found = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        assert found == list(inspect.signature(value).parameters), member


def signature_in(node):
    """The signature of a stub's function, without types and without the class of a class method."""
    for argument in ast.walk(node.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    names = {}
    exec(f"def it({ast.unparse(node.args)}): ...", names)
    parameters = list(inspect.signature(names["it"]).parameters.values())
    return parameters[1:] if "classmethod" in map(ast.unparse, node.decorator_list) else parameters


def is_as_in(node, thing, what):
    """Compare a stub's function with that of the module. A default of `...` stands for any."""
    if "property" in map(ast.unparse, node.decorator_list):
        assert isinstance(thing, property), what
        return
    stub, there = signature_in(node), list(inspect.signature(thing).parameters.values())
    assert [(one.name, one.kind) for one in stub] == [(one.name, one.kind) for one in there], what
    for one, other in zip(stub, there):
        assert one.default is ... or repr(one.default) == repr(other.default), f"{what}: {one.name}"


def is_public(name, thing, module):
    """Whether a member is one of the module's own, and no method that only refuses."""
    function = thing.fget if isinstance(thing, property) else thing
    own = getattr(function, "__module__", None) == module.__name__
    return own and not name.startswith("_") and not (thing.__doc__ or "").startswith(("Not supported", "Refused"))


STUBS = ["_load", "torch", "compat.lightgbm", "compat.sklearn", "compat.treelite", "compat.xgboost"]


@pytest.mark.parametrize("name", STUBS)
def test_stubs_have_the_signatures(name):
    if name == "torch":
        pytest.importorskip("torch")
    module = importlib.import_module(f"fangorn.{name}")
    stub = ast.parse((PACKAGE / f"{name.replace('.', '/')}.pyi").read_text()).body
    functions = {node.name: node for node in stub if isinstance(node, ast.FunctionDef)}
    classes = {node.name: node for node in stub if isinstance(node, ast.ClassDef)}
    of_module = {thing.__name__ for member, thing in vars(module).items() if is_public(member, thing, module)}
    assert of_module <= {*functions, *classes}
    for function, node in functions.items():
        is_as_in(node, getattr(module, function), function)

    def members_of(node):
        """The functions of a stub's class and of its bases in the stub."""
        found = {}
        for base in reversed([classes[ast.unparse(base)] for base in node.bases if ast.unparse(base) in classes]):
            found.update(members_of(base))
        return found | {member.name: member for member in node.body if isinstance(member, ast.FunctionDef)}

    for name, node in classes.items():
        if name.startswith("_"):
            continue
        kind, in_stub = getattr(module, name), members_of(node)
        for member, function in in_stub.items():
            thing = inspect.getattr_static(kind, member)
            is_as_in(function, thing if isinstance(thing, property) else getattr(kind, member), f"{name}.{member}")
        there = {member for member in dir(kind) if is_public(member, inspect.getattr_static(kind, member), module)}
        assert there <= set(in_stub), name
