"""Classes with the names and signatures of XGBoost, LightGBM, scikit-learn and treelite, which predict with fangorn.

A program that loads a model and predicts changes one import:

    from fangorn.compat import xgboost             # in place of: import xgboost
    from fangorn.compat import lightgbm            # in place of: import lightgbm
    from fangorn.compat import sklearn             # sklearn.RandomForestClassifier(fitted)
    from fangorn.compat import treelite            # in place of: import treelite

The libraries need not be installed. Results have the shapes and types of the library's own results. Each row reaches
the same leaves, and sums differ only by rounding. Whatever a library does besides predicting, such as training, raises
an error that names the method and says what to do.
"""
