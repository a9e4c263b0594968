// Predicts the rows of a CSV file of numbers, whose first line has the columns' names.
//
//     predict MODEL ROWS.csv
#include <fangorn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int refused(const char *what) {
    fprintf(stderr, "predict: %s: %s\n", what, fangorn_last_error());
    return 1;
}

// Reads one line of numbers. An empty cell is a missing value.
static int read_row(char *line, float *row, size_t columns) {
    for (size_t c = 0; c < columns; ++c) {
        char *end;
        row[c] = strtof(line, &end);
        if (end == line) {
            row[c] = strtof("nan", NULL);
        }
        if (*end != ',' && *end != '\n' && *end != '\0') {
            return 0;
        }
        line = *end == ',' ? end + 1 : end;
    }
    return 1;
}

int main(int count, char **arguments) {
    if (count != 3) {
        fprintf(stderr, "usage: predict MODEL ROWS.csv\nExample:\n  predict model.ubj rows.csv\n");
        return 2;
    }

    FangornModel *model = NULL;
    if (fangorn_load(arguments[1], NULL, &model) != FANGORN_STATUS_OK) {
        return refused("load");
    }
    int result = 1;
    size_t columns = fangorn_columns(model), width, rows = 0, room = 0;
    float *values = NULL, *out = NULL;
    char line[1 << 16];
    FILE *file = fopen(arguments[2], "r");
    if (file == NULL || fgets(line, sizeof line, file) == NULL) {
        fprintf(stderr, "predict: %s can't be read\n", arguments[2]);
        goto done;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        if (rows == room) {
            room = room == 0 ? 64 : 2 * room;
            float *more = realloc(values, room * columns * sizeof *values);
            if (more == NULL) {
                goto done;
            }
            values = more;
        }
        if (!read_row(line, values + rows * columns, columns)) {
            fprintf(stderr, "predict: %s: row %zu is not %zu numbers\n", arguments[2], rows, columns);
            goto done;
        }
        ++rows;
    }

    if (fangorn_width(model, FANGORN_VALUES, &width) != FANGORN_STATUS_OK) {
        refused("width");
        goto done;
    }
    out = malloc((rows * width + 1) * sizeof *out);
    FangornMatrix matrix = fangorn_matrix_f32(values, rows, columns);
    if (out == NULL || fangorn_predict(model, FANGORN_VALUES, &matrix, out, rows * width) != FANGORN_STATUS_OK) {
        refused("predict");
        goto done;
    }
    for (size_t r = 0; r < rows; ++r) {
        for (size_t v = 0; v < width; ++v) {
            printf(v + 1 < width ? "%.9g," : "%.9g\n", out[r * width + v]);
        }
    }
    result = 0;

done:
    if (file != NULL) {
        fclose(file);
    }
    free(out);
    free(values);
    fangorn_free(model);
    return result;
}
