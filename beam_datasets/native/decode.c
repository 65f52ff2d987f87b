/* Records to columns: the lists of features in many records, one array for each group of features.
 *
 * A record that is not of the form in decode.h is written anew by the function given to parse(), and parsed again. If a
 * record still does not fit the schema (a feature is missing, occurs twice, has another kind or number of values),
 * parse() returns None, and formats/columns.py parses the records, and raises the error.
 */
#include "decode.h"

/* Fast path for entries: nearly all begin like the entry at the same place of the previous record. */

/* The start of the entry at a place of the previous record. The head is the name with tag and length, and the tag of
 * the feature; the tag and length of the entry, two bytes if it is short, precede it. */
typedef struct {
    Span head;
    Py_ssize_t least;           /* bytes that must be left to compare; PY_SSIZE_T_MAX if nothing is known */
    size_t size, tail;          /* of the head; where the entry's eight bytes begin that end with it */
    uint64_t first, first_mask; /* the entry's first eight bytes, and which bits of them are known */
    uint64_t last, last_mask;   /* the same of those from the tail on */
    const Field *field;         /* NULL if it is not in the schema */
} Known;

/* Splits a short entry that begins like the previous one, as most do. The start of the next entry depends on one byte
 * only, so the processor works on several at once. */
static inline int take_known(const Known *known, Span *entries, Span *feature) {
    const uint8_t *at = entries->at;
    Py_ssize_t left = entries->end - at;
    size_t size = known->size;
    if (left < known->least) return 0;
    if ((u64_at(at) & known->first_mask) != known->first) return 0;
    if ((u64_at(at + known->tail) & known->last_mask) != known->last) return 0;
    if (size > 14 && memcmp(at + 8, known->head.at + 6, size - 14) != 0) return 0; /* what is between them */
    size_t length = at[1];
    if (at[2 + size] + size + 1 != length || (Py_ssize_t)length > left - 2) return 0;
    *feature = (Span){at + size + 3, entries->at = at + 2 + length};
    return 1;
}

/* Sets the known values of the eight bytes of an entry at `place`, and the mask of the known bits. */
static inline void know_bytes(Span head, size_t place, uint64_t *known, uint64_t *mask) {
    uint8_t bytes[8] = {0}, bits[8] = {0};
    for (size_t i = 0; i < 8; i++, place++) {
        if (place >= 2 + (size_t)(head.end - head.at)) break;
        bytes[i] = place == 0 ? ENTRY : place == 1 ? 0 : head.at[place - 2];
        bits[i] = place == 1 ? 128 : 255; /* the bit by which a length has one byte */
    }
    memcpy(known, bytes, 8);
    memcpy(mask, bits, 8);
}

/* Returns the start of entries with this head, which has at least three bytes. */
static inline Known known_of(Span head, const Field *field) {
    size_t size = (size_t)(head.end - head.at), tail = size > 6 ? size - 6 : 0;
    Known known = {.head = head, .size = size, .tail = tail, .least = (Py_ssize_t)size + 10, .field = field};
    know_bytes(head, 0, &known.first, &known.first_mask);
    know_bytes(head, tail, &known.last, &known.last_mask);
    return known;
}

/* Splits any entry, and remembers how it begins. */
static inline int take_entry(const Schema *schema, Known *known, Span *entries, Span *feature) {
    Span entry, name;
    if (!take(entries, ENTRY, &entry)) return 0;
    const uint8_t *start = entry.at;
    if (!take(&entry, NAME, &name) || entry.at == entry.end) return 0;
    Span head = {start, entry.at + 1};
    if (!same(head, known->head)) *known = known_of(head, schema_find(schema, name));
    return take(&entry, FEATURE, feature) && entry.at == entry.end;
}

/* Skips entries that are not in the schema and begin like the previous ones; returns what is known of the next one. */
static inline Known *pass_by(Known *known, const Known *last, Span *entries) {
    Span feature;
    while (known < last && known->field == NULL && take_known(known, entries, &feature)) known++;
    return known;
}

enum { ERROR = -1, REFUSED = 0, DONE = 1 };

#define REMEMBERED 64 /* entries of a record that are compared with those of the previous record */
#define MAX_PARTS 8     /* that threads parse */
#define MIN_PART 48     /* records of a part: fewer are parsed while a thread wakes up */

/* What parse() returns of a group. */
typedef struct {
    PyObject *values, *counts, *missing; /* the latter two may be NULL */
    char *data;                          /* of values, where they are numbers */
    int64_t *num;                        /* the same of counts */
    Span *lists;                         /* of each record, where numbers are counted first */
} Output;

typedef struct {
    const Schema *schema;
    Py_ssize_t n;
    const Span *records;
    PyObject *rewrite;   /* a function: record -> the same in canonical form, or None; NULL if there is none */
    PyObject *rewritten; /* a list of the records that it returned: the outputs refer to them until they are closed */
    Output *outputs;
    Py_ssize_t *seen; /* for each field, 1 + the last record that had it */
    Known known[REMEMBERED + 1]; /* the last one is for all others */
} Parse;

/* ------------------------------------------------------------------------------------------------------- outputs */

/* Returns a new bytearray of n items that is not initialized; NULL with an exception. */
static PyObject *new_array(Py_ssize_t n, Py_ssize_t size, char **data) {
    if (n > PY_SSIZE_T_MAX / 16) return PyErr_NoMemory();
    PyObject *array = PyByteArray_FromStringAndSize(NULL, n * size);
    if (array != NULL) *data = PyByteArray_AsString(array);
    return array;
}

/* Allocates the number of values of each record, and the values as far as their number is known. */
static int open_counted(Output *output, const Group *group, Py_ssize_t n) {
    output->counts = new_array(n, sizeof *output->num, (char **)&output->num);
    if (output->counts == NULL) return -1;
    if (group->kind == BYTES) {
        output->values = PyList_New(0);
        return output->values == NULL ? -1 : 0;
    }
    output->lists = PyMem_Calloc((size_t)n + 1, sizeof *output->lists);
    if (output->lists == NULL) PyErr_NoMemory();
    return output->lists == NULL ? -1 : 0;
}

/* Allocates the output of a group as far as its size is known. */
static int open_output(Output *output, const Group *group, Py_ssize_t n) {
    if (group->count < 0) return open_counted(output, group, n);
    if (n && group->num > PY_SSIZE_T_MAX / 16 / group->count / n) {
        PyErr_NoMemory();
        return -1;
    }
    if (group->kind == BYTES)
        output->values = PyList_New(group->num * n * group->count);
    else
        output->values = new_array(group->num * n * group->count, number_size(group->kind), &output->data);
    if (output->values == NULL) return -1;
    if (group->kind == BYTES || !group->optional) return 0;
    output->missing = PyList_New(0);
    return output->missing == NULL ? -1 : 0;
}

/* Returns how many numbers all records have together, filled up or not, and how many the longest list has. */
static Py_ssize_t total_of(const Output *output, const Group *group, Py_ssize_t n, Py_ssize_t *longest) {
    Py_ssize_t total = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_ssize_t num = (Py_ssize_t)output->num[i];
        if (num > 0) total += num;
        if (num > *longest) *longest = num;
    }
    if (group->count != PADDED) return total;
    return *longest > PY_SSIZE_T_MAX / 2 / n ? PY_SSIZE_T_MAX : n * *longest; /* such an array cannot exist */
}

/* Reads the numbers of all records into one array, after they were counted. */
static int read_lists(Output *output, const Group *group, Py_ssize_t n) {
    Py_ssize_t longest = 0, size = number_size(group->kind);
    Py_ssize_t total = n ? total_of(output, group, n, &longest) : 0;
    output->values = new_array(total, size, &output->data);
    if (output->values == NULL) return ERROR;
    char *at = output->data;
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_ssize_t num = output->num[i] < 0 ? 0 : (Py_ssize_t)output->num[i];
        if (read_numbers(group->kind, output->lists[i], at, num) != num) return REFUSED;
        at += num * size;
        if (group->count != PADDED) continue;
        memset(at, 0, (size_t)((longest - num) * size));
        at += (longest - num) * size;
    }
    return DONE;
}

/* Returns what parse() returns of a group. */
static PyObject *close_output(Output *output) {
    if (output->counts != NULL) return PyTuple_Pack(2, output->values, output->counts);
    return output->missing == NULL ? Py_NewRef(output->values) : PyTuple_Pack(2, output->values, output->missing);
}

/* ------------------------------------------------------------------------------------------------------- parsing */

/* Stores that a feature is missing in record i. */
static int lack(Parse *parse, const Field *field, Py_ssize_t i) {
    const Group *group = parse->schema->groups + field->group;
    Output *output = parse->outputs + field->group;
    if (!group->optional) return REFUSED;
    if (output->counts != NULL) {
        output->num[i] = -1;
        return DONE;
    }
    Py_ssize_t first = (field->slot * parse->n + i) * group->count;
    if (group->kind == BYTES) {
        for (Py_ssize_t k = 0; k < group->count; k++)
            if (PyList_SetItem(output->values, first + k, Py_NewRef(Py_None)) < 0) return ERROR;
        return DONE;
    }
    Py_ssize_t size = number_size(group->kind);
    memset(output->data + first * size, 0, (size_t)(group->count * size));
    PyObject *place = Py_BuildValue("nn", field->slot, i);
    int failed = place == NULL || PyList_Append(output->missing, place) < 0;
    Py_XDECREF(place);
    return failed ? ERROR : DONE;
}

/* Takes the values of a list of bytes. */
static int take_bytes(Parse *parse, const Field *field, Py_ssize_t i, Span list) {
    Py_ssize_t count = parse->schema->groups[field->group].count, n = 0;
    Output *output = parse->outputs + field->group;
    Py_ssize_t first = (field->slot * parse->n + i) * count;
    for (Span value; list.at < list.end; n++) {
        if (!take(&list, VALUES, &value) || n == count) return REFUSED;
        PyObject *bytes = PyBytes_FromStringAndSize((const char *)value.at, value.end - value.at);
        if (bytes == NULL) return ERROR;
        if (count == ANY) {
            int failed = PyList_Append(output->values, bytes) < 0;
            Py_DECREF(bytes);
            if (failed) return ERROR;
        } else if (PyList_SetItem(output->values, first + n, bytes) < 0) {
            return ERROR;
        }
    }
    if (count == ANY) output->num[i] = n;
    return count == ANY || n == count ? DONE : REFUSED;
}

/* Takes the list of a feature of record i. */
static int take_list(Parse *parse, const Field *field, Py_ssize_t i, Span feature) {
    const Group *group = parse->schema->groups + field->group;
    Output *output = parse->outputs + field->group;
    Span list;
    if (feature.at == feature.end) return lack(parse, field, i);
    if (!take(&feature, (uint8_t)group->kind, &list) || feature.at != feature.end) return REFUSED;
    if (group->kind == BYTES) return take_bytes(parse, field, i, list);
    if (group->count < 0) {
        output->lists[i] = list;
        output->num[i] = read_numbers(group->kind, list, NULL, PY_SSIZE_T_MAX / 64);
        return output->num[i] < 0 ? REFUSED : DONE;
    }
    char *data = output->data + (field->slot * parse->n + i) * group->count * number_size(group->kind);
    return read_numbers(group->kind, list, data, group->count) == group->count ? DONE : REFUSED;
}

/* Takes the entries of record i. */
static int take_entries(Parse *parse, Py_ssize_t i, Span entries) {
    Py_ssize_t found = 0;
    Known *last = parse->known + REMEMBERED;
    for (Known *known = parse->known;; known += known < last) {
        Span feature;
        known = pass_by(known, last, &entries);
        if (entries.at == entries.end) break;
        if (!take_known(known, &entries, &feature) && !take_entry(parse->schema, known, &entries, &feature))
            return REFUSED;
        const Field *field = known->field;
        if (field == NULL) continue;
        Py_ssize_t *seen = parse->seen + (field - parse->schema->fields);
        if (*seen == i + 1) return REFUSED;
        *seen = i + 1;
        found++;
        int result = take_list(parse, field, i, feature);
        if (result != DONE) return result;
    }
    for (Py_ssize_t f = 0; found < parse->schema->num_fields && f < parse->schema->num_fields; f++) {
        if (parse->seen[f] == i + 1) continue;
        int result = lack(parse, parse->schema->fields + f, i);
        if (result != DONE) return result;
    }
    return DONE;
}

/* Takes the entries of bytes that are record i. */
static int take_record(Parse *parse, Py_ssize_t i, Span record) {
    Span entries = record;
    if (record.at < record.end && (!take(&record, ENTRY, &entries) || record.at != record.end)) return REFUSED;
    return take_entries(parse, i, entries);
}

/* Takes records from `*i` on; increments it up to `stop`, or to the record that is refused. */
static int take_range(Parse *parse, Py_ssize_t *i, Py_ssize_t stop) {
    int result = DONE;
    while (*i < stop && (result = take_record(parse, *i, parse->records[*i])) == DONE) ++*i;
    return result;
}

/* Removes what record i, which was refused, has added to the lists of a group; 0, or -1 with an exception. */
static int undo_group(Output *output, const Group *group, Py_ssize_t i) {
    if (group->count == ANY && group->kind == BYTES) {
        Py_ssize_t before = 0;
        for (Py_ssize_t k = 0; k < i; k++) before += output->num[k] > 0 ? (Py_ssize_t)output->num[k] : 0;
        return PyList_SetSlice(output->values, before, PyList_Size(output->values), NULL);
    }
    for (Py_ssize_t n = output->missing == NULL ? 0 : PyList_Size(output->missing); n > 0; n--) {
        PyObject *pair = PyList_GetItem(output->missing, n - 1); /* (slot, record) */
        if (pair == NULL || PyLong_AsSsize_t(PyTuple_GetItem(pair, 1)) != i) break;
        if (PyList_SetSlice(output->missing, n - 1, n, NULL) < 0) return -1;
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* Removes what record i, which was refused, has left, so that it can be taken again. Fixed places are overwritten. */
static int undo(Parse *parse, Py_ssize_t i) {
    const Schema *schema = parse->schema;
    for (Py_ssize_t f = 0; f < schema->num_fields; f++)
        if (parse->seen[f] == i + 1) parse->seen[f] = 0;
    for (Py_ssize_t g = 0; g < schema->num_groups; g++)
        if (undo_group(parse->outputs + g, schema->groups + g, i) < 0) return -1;
    return 0;
}

/* Returns record i in canonical form, as bytes that `parse` holds; NULL without an exception if it has none. */
static PyObject *rewritten(Parse *parse, Py_ssize_t i) {
    Span record = parse->records[i];
    PyObject *result = PyObject_CallFunction(parse->rewrite, "y#", (const char *)record.at, record.end - record.at);
    int failed = result == NULL || (PyBytes_Check(result) && PyList_Append(parse->rewritten, result) < 0);
    PyObject *bytes = failed || !PyBytes_Check(result) ? NULL : result; /* the list holds it */
    Py_XDECREF(result);
    return bytes;
}

/* Takes record i in canonical form, after it was refused. */
static int take_rewritten(Parse *parse, Py_ssize_t i) {
    PyObject *bytes = parse->rewrite == NULL || undo(parse, i) < 0 ? NULL : rewritten(parse, i);
    if (bytes == NULL) return PyErr_Occurred() ? ERROR : REFUSED;
    const uint8_t *at = (const uint8_t *)PyBytes_AsString(bytes);
    return take_record(parse, i, (Span){at, at + PyBytes_Size(bytes)});
}

/* Takes records [i, stop); those that are refused, in canonical form. */
static int take_all(Parse *parse, Py_ssize_t i, Py_ssize_t stop) {
    int result;
    while ((result = take_range(parse, &i, stop)) == REFUSED && (result = take_rewritten(parse, i)) == DONE) i++;
    return result;
}

/* Records [start, stop), which a thread may parse, up to one that is refused. */
typedef struct {
    Task task;
    Parse parse; /* the outputs are those of all parts */
    Py_ssize_t start, stop;
} Part;

static void take_part(Task *task) {
    Part *part = (Part *)task;
    take_range(&part->parse, &part->start, part->stop);
}

/* Returns the number of parts to parse on threads: 1 if Python objects are needed or the places of numbers unknown. */
static Py_ssize_t num_parts(const Parse *parse) {
    Py_ssize_t most = parse->n / MIN_PART;
    if (most < 2 || !ahead_is_on()) return 1;
    for (const Group *group = parse->schema->groups; group < parse->schema->groups + parse->schema->num_groups; group++)
        if (group->kind == BYTES || (group->optional && group->count > 0)) return 1;
    return most < MAX_PARTS ? most : MAX_PARTS;
}

/* Parses all records in parts, the last ones first, while a thread begins with the first ones. */
static int take_parts(Parse *parse, Py_ssize_t n) {
    Py_ssize_t num_fields = parse->schema->num_fields;
    Part *parts = PyMem_Calloc((size_t)n, sizeof *parts);
    Py_ssize_t *seen = PyMem_Calloc((size_t)(n * num_fields) + 1, sizeof *seen);
    int result = parts == NULL || seen == NULL ? ERROR : DONE;
    if (result == ERROR) PyErr_NoMemory();
    for (Py_ssize_t k = 0; k < n && result == DONE; k++) {
        parts[k] = (Part){.task = {.work = take_part}, .parse = *parse};
        parts[k].parse.seen = seen + k * num_fields;
        parts[k].start = parse->n * k / n;
        parts[k].stop = parse->n * (k + 1) / n;
        if (k + 1 < n) ahead_submit(&parts[k].task);
    }
    for (Py_ssize_t k = result == DONE ? n : 0; k-- > 0;) {
        if (k + 1 < n) ahead_take(&parts[k].task);
        if (result == DONE) result = take_all(&parts[k].parse, parts[k].start, parts[k].stop);
    }
    PyMem_Free(parts);
    PyMem_Free(seen);
    return result;
}

static int take_records(Parse *parse) {
    const Schema *schema = parse->schema;
    for (Py_ssize_t g = 0; g < schema->num_groups; g++) {
        if (open_output(parse->outputs + g, schema->groups + g, parse->n) < 0) return ERROR;
    }
    Py_ssize_t n = num_parts(parse);
    int result = n > 1 ? take_parts(parse, n) : take_all(parse, 0, parse->n);
    for (Py_ssize_t g = 0; g < schema->num_groups && result == DONE; g++)
        if (parse->outputs[g].lists != NULL) result = read_lists(parse->outputs + g, schema->groups + g, parse->n);
    return result;
}

static PyObject *results_of(Parse *parse) {
    PyObject *results = PyTuple_New(parse->schema->num_groups);
    for (Py_ssize_t g = 0; results != NULL && g < parse->schema->num_groups; g++) {
        PyObject *result = close_output(parse->outputs + g);
        if (result == NULL || PyTuple_SetItem(results, g, result) < 0) Py_CLEAR(results);
    }
    return results;
}

static void parse_free(Parse *parse) {
    for (Py_ssize_t g = 0; parse->outputs != NULL && g < parse->schema->num_groups; g++) {
        Output *output = parse->outputs + g;
        Py_XDECREF(output->values);
        Py_XDECREF(output->counts);
        Py_XDECREF(output->missing);
        PyMem_Free(output->lists);
    }
    PyMem_Free(parse->outputs);
    PyMem_Free(parse->seen);
    Py_XDECREF(parse->rewritten);
}

static PyObject *parsed(const Schema *schema, const Span *records, Py_ssize_t n, PyObject *rewrite) {
    PyObject *results = NULL;
    Parse parse = {.schema = schema, .n = n, .records = records, .rewrite = rewrite};
    parse.rewritten = rewrite == NULL ? NULL : PyList_New(0);
    parse.outputs = PyMem_Calloc((size_t)schema->num_groups + 1, sizeof *parse.outputs);
    parse.seen = PyMem_Calloc((size_t)schema->num_fields + 1, sizeof *parse.seen);
    for (int i = 0; i <= REMEMBERED; i++) parse.known[i].least = PY_SSIZE_T_MAX;
    if (parse.outputs == NULL || parse.seen == NULL || (rewrite != NULL && parse.rewritten == NULL)) {
        PyErr_NoMemory();
    } else {
        int result = take_records(&parse);
        if (result == DONE) results = results_of(&parse);
        if (result == REFUSED) results = Py_NewRef(Py_None);
    }
    parse_free(&parse);
    return results;
}

/* The same for a list of buffers, which are held until it ends. */
static PyObject *parsed_list(const Schema *schema, PyObject *list, PyObject *rewrite) {
    Py_ssize_t n = PyList_Size(list), held = 0;
    Py_buffer *buffers = PyMem_Calloc((size_t)n + 1, sizeof *buffers);
    Span *records = PyMem_Calloc((size_t)n + 1, sizeof *records);
    PyObject *results = NULL;
    if (buffers == NULL || records == NULL) PyErr_NoMemory();
    for (; buffers != NULL && records != NULL && held < n; held++) {
        PyObject *record = PyList_GetItem(list, held);
        if (record == NULL || bytes_get(record, buffers + held) < 0) break;
        const uint8_t *at = buffers[held].buf;
        records[held] = (Span){at, at + buffers[held].len};
    }
    if (!PyErr_Occurred()) results = parsed(schema, records, n, rewrite);
    while (held > 0) PyBuffer_Release(buffers + --held);
    PyMem_Free(buffers);
    PyMem_Free(records);
    return results;
}

PyDoc_STRVAR(parse_doc,
             "parse(schema, records, rewrite=None, /)\n--\n\n"
             "Returns the column of each group of the schema for the records of a list or RecordBlock; None if a\n"
             "record does not fit. `rewrite` returns a record that is not canonical in canonical form, or None;\n"
             "without it such a record does not fit. formats/columns.py describes columns.");

static PyObject *py_parse(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *capsule, *records, *rewrite = NULL;
    const Span *spans;
    if (!PyArg_ParseTuple(args, "OO|O:parse", &capsule, &records, &rewrite)) return NULL;
    if (rewrite == Py_None) rewrite = NULL;
    const Schema *schema = PyCapsule_GetPointer(capsule, SCHEMA);
    if (schema == NULL) return NULL;
    if (PyList_Check(records)) return parsed_list(schema, records, rewrite);
    Py_ssize_t n = block_spans(records, &spans);
    if (n < 0) return PyErr_Format(PyExc_TypeError, "records are a list or a RecordBlock, not %R", records);
    Py_INCREF(records);
    PyObject *results = parsed(schema, spans, n, rewrite);
    Py_DECREF(records);
    return results;
}

PyMethodDef decode_methods[] = {
    {"parse", py_parse, METH_VARARGS, parse_doc},
    {NULL, NULL, 0, NULL},
};
