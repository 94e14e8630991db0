by_value = []


def register_pickle_by_value(module):
    by_value.append(module.__name__)
