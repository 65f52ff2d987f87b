#include "native.h"

PyMethodDef decode_methods[] = {{NULL, NULL, 0, NULL}};
