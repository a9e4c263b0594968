"""The classes of XGBoost, LightGBM, scikit-learn and treelite with their own signatures, which predict by fangorn.

A program that loads a model and predicts changes one import:

    from fangorn.compat import xgboost             # in place of: import xgboost
    from fangorn.compat import lightgbm            # in place of: import lightgbm
    from fangorn.compat import sklearn             # sklearn.ensemble.RandomForestClassifier(fitted)
    from fangorn.compat import treelite            # in place of: import treelite

None of these libraries needs to be installed. Results have the shapes and the types that the library returns. Leaves are
the same, and sums differ by rounding alone. What a library does besides predicting, training above all, is refused by
name.
"""
