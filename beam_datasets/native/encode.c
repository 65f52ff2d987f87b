#include "native.h"

PyMethodDef encode_methods[] = {{NULL, NULL, 0, NULL}};
