module go-iocopy

go 1.19
