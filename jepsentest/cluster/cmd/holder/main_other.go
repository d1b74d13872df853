//go:build !linux

// Command holder owns the network of one node. It runs in Linux containers only.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "holder: runs on linux only; package cluster builds it for the engine by itself")
	os.Exit(1)
}
