package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
	"golang.org/x/sync/errgroup"
)

// ErrNoEngine is wrapped by errors of machines where no container engine answers.
var ErrNoEngine = errors.New("no container engine answers")

// engine is a connection to the container engine: testcontainers finds it and creates
// containers, the client underneath does what testcontainers has no verb for.
type engine struct {
	provider *testcontainers.DockerProvider
	client   client.APIClient
	arch     string // GOARCH of what the engine runs
}

// pingTimeout is how long an engine may take to answer at all.
const pingTimeout = 10 * time.Second

// setUp does once per process what testcontainers reads once per process.
var setUp sync.Once

// connect finds the engine. Its errors wrap ErrNoEngine and say what was tried.
func connect(ctx context.Context) (*engine, error) {
	if err := ctx.Err(); err != nil {
		return nil, err // whether an engine answers is not known
	}
	if err := probe(ctx); err != nil {
		return nil, err
	}
	var provider *testcontainers.DockerProvider
	var err error
	find := func() { provider, err = newProvider() }
	setUp.Do(func() {
		disableReaper(ctx)
		// At its first connection testcontainers prints ten lines about the engine.
		logger := tclog.Default()
		tclog.SetDefault(tclog.NewNoopLogger())
		defer tclog.SetDefault(logger)
		find()
	})
	if provider == nil && err == nil {
		find()
	}
	if err != nil {
		return nil, noEngine("the default sockets", err)
	}
	e := &engine{provider: provider, client: provider.Client()}
	given := ctx
	ctx, cancel := context.WithTimeout(given, pingTimeout)
	defer cancel()
	v, err := e.client.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		e.close()
		if given.Err() != nil {
			return nil, given.Err()
		}
		return nil, noEngine(e.client.DaemonHost(), err)
	}
	if v.Os != "linux" {
		e.close()
		return nil, fmt.Errorf("the container engine at %s runs %s containers; nodes need Linux containers", e.client.DaemonHost(), v.Os)
	}
	e.arch = v.Arch
	return e, nil
}

// probe asks the engine that DOCKER_HOST names whether it is there. Testcontainers would turn to
// another one without a word.
func probe(ctx context.Context) error {
	host := os.Getenv("DOCKER_HOST")
	if host == "" {
		return nil
	}
	c, err := client.New(client.FromEnv)
	if err == nil {
		defer c.Close()
		ctx, cancel := context.WithTimeout(ctx, pingTimeout)
		defer cancel()
		_, err = c.Ping(ctx, client.PingOptions{})
	}
	if err != nil {
		return noEngine("DOCKER_HOST="+host, err)
	}
	return nil
}

// newProvider turns a panic of testcontainers, which it prefers in some corners, into an error.
func newProvider() (p *testcontainers.DockerProvider, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return testcontainers.NewDockerProvider()
}

func noEngine(tried string, err error) error {
	return fmt.Errorf("%w at %s: start Docker, or set DOCKER_HOST to where it listens (%w)", ErrNoEngine, tried, err)
}

// disableReaper turns testcontainers' reaper off where its image is not at hand: it would have
// to be pulled, which fails without a registry, and is not needed, since this package removes
// what it creates. A user's own choice in the environment stands.
func disableReaper(ctx context.Context) {
	const variable = "TESTCONTAINERS_RYUK_DISABLED"
	if _, chosen := os.LookupEnv(variable); chosen {
		return
	}
	if c, err := client.New(client.FromEnv); err == nil {
		defer c.Close()
		if images, err := c.ImageList(ctx, client.ImageListOptions{}); err == nil && hasReaper(images.Items) {
			return
		}
	}
	os.Setenv(variable, "true")
}

// hasReaper reports whether one of the images is the reaper's, of whatever version and from
// whatever mirror.
func hasReaper(images []image.Summary) bool {
	for _, img := range images {
		for _, tag := range img.RepoTags {
			if strings.Contains(tag, "testcontainers/ryuk:") {
				return true
			}
		}
	}
	return false
}

func (e *engine) close() error { return e.provider.Close() }

// hasImage says whether the engine has an image of that name.
func (e *engine) hasImage(ctx context.Context, ref string) (bool, error) {
	_, err := e.client.ImageInspect(ctx, ref)
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("inspect image %s: %w", ref, err)
	}
	return true, nil
}

// importImage makes an image of one layer out of a root file system. Unlike a build it has no
// stages in between that a killed process could leave: the image is there, with its name, or
// nothing is.
func (e *engine) importImage(ctx context.Context, ref string, rootfs io.Reader, changes ...string) error {
	res, err := e.client.ImageImport(ctx, client.ImageImportSource{Source: rootfs, SourceName: "-"}, ref,
		client.ImageImportOptions{Changes: changes})
	if err == nil {
		// The engine is done when its answer ends; whether it is, the image itself tells.
		_, err = io.Copy(io.Discard, res)
		err = errors.Join(err, res.Close())
	}
	if err != nil {
		return fmt.Errorf("import image %s: %w", ref, err)
	}
	if ok, err := e.hasImage(ctx, ref); err != nil || !ok {
		return errors.Join(fmt.Errorf("import image %s: the engine did not make it", ref), err)
	}
	return nil
}

// removeRounds and removePause bound how long removal follows creations that were under way on
// the engine when their context ended.
const (
	removeRounds = 20
	removePause  = 100 * time.Millisecond
)

// removeCluster removes every container and network that carries the cluster's label, until
// there is none.
func (e *engine) removeCluster(ctx context.Context, id string) error {
	ours := make(client.Filters).Add("label", labelCluster+"="+id)
	var last error
	for range removeRounds {
		left, err := e.removeOnce(ctx, ours)
		if err == nil && left == 0 {
			return nil
		}
		last = err
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), last)
		case <-time.After(removePause):
		}
	}
	return errors.Join(errors.New("containers or networks remain"), last)
}

// removeOnce removes what it finds, and says how much that was: 0 means that nothing was left.
func (e *engine) removeOnce(ctx context.Context, ours client.Filters) (found int, err error) {
	containers, err := e.client.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: ours})
	if err != nil {
		return 0, fmt.Errorf("list containers: %w", err)
	}
	var g errgroup.Group
	for _, c := range containers.Items {
		g.Go(func() error {
			_, err := e.client.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
			// Another process may sweep the same: that is as good.
			if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
				return fmt.Errorf("remove container %s: %w", c.ID, err)
			}
			return nil
		})
	}
	errContainers := g.Wait()
	networks, err := e.client.NetworkList(ctx, client.NetworkListOptions{Filters: ours})
	if err != nil {
		return 0, errors.Join(errContainers, fmt.Errorf("list networks: %w", err))
	}
	var errNetworks error
	for _, n := range networks.Items {
		_, err := e.client.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{})
		if err != nil && !errdefs.IsNotFound(err) {
			errNetworks = errors.Join(errNetworks, fmt.Errorf("remove network %s: %w", n.Name, err))
		}
	}
	return len(containers.Items) + len(networks.Items), errors.Join(errContainers, errNetworks)
}
