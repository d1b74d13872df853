// Command images builds the images that the etcd suite needs ahead of time, so
// that the first test does not have to.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/jepsentest/go/jepsentest/cluster"
	"github.com/jepsentest/go/suites/etcd"
)

func main() {
	version := flag.String("etcd.version", etcd.DefaultVersion, "the `version` of etcd to build")
	image := flag.String("etcd.image", "", "fetch this `image` from a registry instead")
	dir := flag.String("C", ".", "the `directory` of the suite")
	flag.Parse()
	if err := prepare(*version, *image, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func prepare(version, image, dir string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	// The suite finds its nested module relative to its own directory.
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := os.Chdir(dir); err != nil {
		return err
	}
	ref, err := cluster.Prepare(ctx, etcd.Image(version, image), func(format string, args ...any) {
		fmt.Printf(format+"\n", args...)
	})
	if err != nil {
		return err
	}
	fmt.Println(ref)
	return nil
}
