module jepsentest.invalid/testnode

go 1.26.0
