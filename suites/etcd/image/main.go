// Command etcd is the etcd server as its own release builds it: a main over etcdmain, kept in a
// nested module so that the server's dependencies stay out of the main go.mod.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
