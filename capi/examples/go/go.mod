module fangorn.example/predict

go 1.19
