"""A campaign of broken files against every reader: `make fuzz`.

Good files of every kind (`seeds`) are broken at random (`mutations`) and handed to the verbs that read them
(`targets`), inside a process of bounded memory (`worker`); `campaign` counts what did not end in a result or in one
sentence. An input is made by its kind and its number alone, so that every finding can be made again.
"""
