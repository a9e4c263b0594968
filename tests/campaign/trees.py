"""The splits of a model's trees, as far as rows are aimed at them."""

import numpy as np


class Tree:
    """A tree's nodes: the column and the threshold that each asks for (-1 in leaves and splits on categories) and its
    parent (-1 above the root). `ends` gives the node of a leaf by the library's number of it. Without parents every
    row comes by every split, as in CatBoost's oblivious trees."""

    def __init__(self, column, threshold, parent=None, ends=None):
        self.column, self.threshold = np.asarray(column, int), np.asarray(threshold, float)
        self.parent, self.ends = parent, ends

    def visitors(self, leaves):
        """For each split that rows come by, such rows: leaves are those that rows end in."""
        if self.parent is None:
            every = list(range(len(leaves)))
            return {n: every for n in range(len(self.column))}
        found = {}
        for row, leaf in enumerate(leaves):
            node = self.ends[int(leaf)]
            while node >= 0:
                if self.column[node] >= 0:
                    found.setdefault(node, []).append(row)
                node = self.parent[node]
        return found


def parents(left, right):
    """Each node's parent, of lists of children in which a leaf has a negative one. Nodes that are not below the root,
    which is the first, have none."""
    above = [-1] * len(left)
    todo = [0] if len(left) else []
    while todo:
        node = todo.pop()
        for child in (left[node], right[node]):
            if child > 0 and above[child] < 0:
                above[child] = node
                todo.append(child)
    return above


def thresholds(trees):
    """All thresholds of each column, without repetition."""
    found = {}
    for tree in trees:
        inner = tree.column >= 0
        for column, threshold in zip(tree.column[inner], tree.threshold[inner]):
            found.setdefault(int(column), set()).add(float(threshold))
    return {column: np.array(sorted(values)) for column, values in found.items()}
