// Calls the library as it should not be called, and explains a row. Every call must come back with a status.
#include <assert.h>
#include <fangorn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char **arguments) {
    assert(count == 2);
    assert(strlen(fangorn_version()) > 0 && strlen(fangorn_last_error()) == 0);

    FangornModel *model = NULL;
    assert(fangorn_load(NULL, NULL, &model) == FANGORN_STATUS_INVALID_ARGUMENT && model == NULL);
    assert(fangorn_load("/no/such/file", NULL, &model) == FANGORN_STATUS_IO);
    assert(strstr(fangorn_last_error(), "/no/such/file") != NULL);
    assert(fangorn_load_bytes((const uint8_t *)"nothing", 7, NULL, &model) == FANGORN_STATUS_MODEL);
    FangornOptions options = fangorn_options();
    options.size = 1;
    assert(fangorn_load(arguments[1], &options, &model) == FANGORN_STATUS_INVALID_ARGUMENT);
    options = fangorn_options();
    options.threads = 1;
    options.sum = "exact";
    assert(fangorn_load(arguments[1], &options, &model) == FANGORN_STATUS_OK);

    // Buffers of exactly the size that is told, so that a checker sees one value more.
    size_t columns = fangorn_columns(model), width = 0;
    float *row = calloc(columns, sizeof *row), margin = 0;
    FangornMatrix matrix = fangorn_matrix_f32(row, 1, columns);
    assert(fangorn_predict(model, FANGORN_MARGINS, &matrix, &margin, 1) == FANGORN_STATUS_OK);
    assert(fangorn_width(model, FANGORN_CONTRIBUTIONS, &width) == FANGORN_STATUS_OK && width == columns + 1);
    float *contributions = malloc(width * sizeof *contributions), sum = 0;
    assert(fangorn_predict(model, FANGORN_CONTRIBUTIONS, &matrix, contributions, width) == FANGORN_STATUS_OK);
    for (size_t c = 0; c < width; ++c) {
        sum += contributions[c];
    }
    assert(fabsf(sum - margin) < 1e-4f);
    int32_t *ids = malloc(fangorn_trees(model) * sizeof *ids);
    assert(fangorn_predict_integers(model, FANGORN_LEAF_IDS, &matrix, ids, fangorn_trees(model)) == FANGORN_STATUS_OK);

    matrix.length = columns - 1;
    assert(fangorn_predict(model, FANGORN_VALUES, &matrix, &margin, 1) == FANGORN_STATUS_ROWS);
    matrix = fangorn_matrix_f32(row, 1, columns - 1);
    assert(fangorn_predict(model, FANGORN_VALUES, &matrix, &margin, 1) == FANGORN_STATUS_ROWS);
    matrix = fangorn_matrix_f32(row, 1, columns);
    assert(fangorn_predict(model, FANGORN_VALUES, &matrix, &margin, 0) == FANGORN_STATUS_INVALID_ARGUMENT);
    assert(fangorn_predict(model, FANGORN_VALUES, &matrix, row, 1) == FANGORN_STATUS_INVALID_ARGUMENT);
    assert(fangorn_predict(NULL, FANGORN_VALUES, &matrix, &margin, 1) == FANGORN_STATUS_INVALID_ARGUMENT);

    free(ids);
    free(contributions);
    free(row);
    fangorn_free(model);
    fangorn_free(NULL);
    return 0;
}
