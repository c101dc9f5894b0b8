// Where the engine's library was when the plugin was added to Morpheus' sources: the last place but one to look for it.
#ifndef LIBRARY_PATH_H
#define LIBRARY_PATH_H

#define NCPM_LIBRARY_PATH ""

#endif
