"""The examples of the documentation run, stubs say what there is, and everything has a docstring."""

import ast
import doctest
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


def test_functions_have_types():
    for path in PACKAGE.glob("*.py"):
        if path.name.startswith("_export"):
            continue
        ast.parse(path.read_text())
    for name in ("load", "loads", "from_xgboost", "from_sklearn"):
        stub = ast.parse((PACKAGE / "_load.pyi").read_text())
        assert [node for node in stub.body if isinstance(node, ast.FunctionDef) and node.name == name], name
