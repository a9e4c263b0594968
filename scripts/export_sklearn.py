"""Write a fitted tree, forest, boosting, linear model or pipeline of scikit-learn as arrays that fangorn reads."""

import argparse
import io
import json
import os
import shutil
import sys
try:
    import joblib
    import numpy as np
    import sklearn
except ImportError as error:
    joblib, missing = None, error.name

HEAD = "n_features_in_ feature_names_in_ classes_ loss learning_rate init_ is_categorical_ offset_ _max_samples".split()
TREE = "children_left children_right feature threshold missing_go_to_left value n_node_samples".split()
NODE = "left right feature_idx num_threshold missing_go_to_left is_leaf value is_categorical bitset_idx".split()
STEP = """mean_ scale_ center_ min_ statistics_ components_ explained_variance_ coef_ intercept_ powers_ categories_
drop_idx_ classes_ clip feature_range norm threshold whiten with_mean missing_values add_indicator handle_unknown
infrequent_categories_ encodings_ target_mean_ unknown_value encoded_missing_value keep_empty_features _fit_dtype _fit_X
n_neighbors weights metric solver multi_class transformer_weights""".split()


def plain(it):
    """Return a list for an array, and None for a missing number, as JSON needs it."""
    if isinstance(it, (list, tuple, np.ndarray)):
        return [plain(item) for item in it]
    it = it.item() if isinstance(it, np.generic) else it
    return None if isinstance(it, float) and it != it else it


def step(it, forests):
    """Return the fitted attributes of a pipeline, a union, a column transformer, or a step of one."""
    if isinstance(it, str) or getattr(it, "func", "") is None:
        return {"estimator": it if isinstance(it, str) else "passthrough"}
    found = {name: plain(getattr(it, name)) for name in STEP if hasattr(it, name)} | {"estimator": str(type(it))}
    found["indicator"] = plain(getattr(getattr(it, "indicator_", None), "features_", None))
    if hasattr(it, "transformers_"):
        members = [(member, it._transformer_to_input_indices[name]) for name, member, _ in it.transformers_]
        found.update(steps=[step(member, forests) for member, _ in members], columns=plain([c for _, c in members]))
    elif hasattr(it, "transformer_list") or hasattr(it, "steps"):
        members = it.steps if hasattr(it, "steps") else it.transformer_list
        found["steps"] = [step(member or "passthrough", forests) for _, member in members]
    elif hasattr(it, "get_support"):
        found["columns"] = plain([it.get_support(indices=True)])
    elif hasattr(it, "estimators_") or hasattr(it, "tree_") or hasattr(it, "_predictors"):
        found["forest"] = len(forests)
        forests.append(io.BytesIO())
        export(it, forests[-1])
    return found


def export(estimator, path):
    head = {name: getattr(estimator, name) for name in HEAD if hasattr(estimator, name)}
    head.update(format=2, version=sklearn.__version__, estimator=str(type(estimator)))
    stages = getattr(estimator, "_predictors", getattr(estimator, "estimators_", [estimator]))
    trees = [tree for stage in stages for tree in (stage if isinstance(stage, (list, np.ndarray)) else [stage])]
    if hasattr(estimator, "_predictors"):
        arrays = {name: [tree.nodes[name] for tree in trees] for name in NODE}
        arrays["left_bitsets"] = [tree.raw_left_cat_bitsets for tree in trees]
        arrays["known_bitsets"], arrays["known_places"] = estimator._bin_mapper.make_known_categories_bitsets()
        encoder = getattr(getattr(estimator, "_preprocessor", None), "named_transformers_", {}).get("encoder")
        head.update(base=estimator._baseline_prediction, categories=getattr(encoder, "categories_", None))
    elif all(hasattr(tree, "tree_") for tree in trees):
        arrays = {name: [getattr(tree.tree_, name, []) for tree in trees] for name in TREE}
        arrays["columns"] = getattr(estimator, "estimators_features_", [])
        head["trees"] = [[str(type(tree)), getattr(tree, "classes_", None)] for tree in trees]
        if hasattr(estimator, "init_"):
            head["base"] = estimator._raw_predict_init(np.zeros((1, estimator.n_features_in_), np.float32))
    elif hasattr(estimator, "steps") or hasattr(estimator, "coef_"):
        head["model"] = step(estimator, forests := [])
        arrays = {"forests": [np.frombuffer(forest.getvalue(), np.uint8) for forest in forests]}
    else:
        raise TypeError(f"{type(estimator)} is unfitted or unsupported; of a search export best_estimator_. {__doc__}")
    head = json.dumps(head, default=lambda it: it.tolist() if hasattr(it, "tolist") else f"{type(it)} {it}")
    joined = {name: np.concatenate([np.ravel(entry) for entry in entries] or [[]]) for name, entries in arrays.items()}
    sizes = {f"{name}.sizes": [np.size(entry) for entry in entries] for name, entries in arrays.items()}
    np.savez_compressed(path, fangorn=np.frombuffer(head.encode(), np.uint8), **joined, **sizes)


def write(archive, path):
    """Write a file beside the target and rename it, so that after a failure an earlier file is as it was."""
    target = os.path.realpath(path)
    temporary = os.path.join(os.path.dirname(target), f".export-sklearn-{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(archive)
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(target):
            open(target, "r+b").close()  # A file that may not be written is not replaced.
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)


def main(model, output):
    """Export a file, and return the error of what fails."""
    if joblib is None:
        return f"the package {missing} is not installed; use a Python that has scikit-learn and the model's packages"
    try:
        estimator = joblib.load(model)
    except Exception as error:  # A file that is no pickle fails in many ways.
        why = getattr(error, "strerror", None) or repr(error)
        return f"{model}: can't be loaded: {why}; give a file of joblib or pickle, and install the model's packages"
    try:
        archive = io.BytesIO()
        export(estimator, archive)
    except Exception as error:
        return f"{model}: can't be exported: {error}"
    try:
        write(archive.getbuffer(), output if output.endswith(".npz") else f"{output}.npz")
    except OSError as error:
        return f"{output}: can't be written: {error.strerror}; make room, or name a file in a folder that takes it"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, epilog="Example: export_sklearn.py model.joblib model.npz")
    parser.add_argument("model", help="a file of joblib or pickle; loading it can run any program, so take your own")
    parser.add_argument("output", help="the .npz file to write")
    failure = main(**vars(parser.parse_args())) or ""
    sys.exit(" ".join(failure.split()) or None)
