package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
	tcnetwork "github.com/testcontainers/testcontainers-go/network"
	"golang.org/x/sync/errgroup"

	"github.com/jepsentest/go/jepsentest/cluster/holder"
)

// docker is the driver that runs nodes as containers.
type docker struct {
	engine *engine
	spec   Spec
	id     string // of this cluster: the value of labelCluster
	labels map[string]string
	http   *http.Client // to the holders

	nodes map[string]*dockerNode
	// Set by prepare, constant afterwards.
	image      string
	route      route
	uncuttable error // why packet filters cannot be programmed here
}

// dockerNode is a node's two containers.
type dockerNode struct {
	holder string // container id, set by prepare
	place  place
	client holder.Client

	mu       sync.Mutex
	database string // container id, set by launch; guarded by mu, for Close may overtake launch
}

// controlTimeout bounds one request to a holder, which takes some milliseconds.
const controlTimeout = 10 * time.Second

func newDocker(e *engine, spec Spec) *docker {
	id := strings.ToLower(rand.Text()[:10])
	labels := self().labels()
	labels[labelRun] = spec.RunID
	labels[labelCluster] = id
	if spec.KeepNodes {
		labels[labelKeep] = "true"
	}
	d := &docker{
		engine: e,
		spec:   spec,
		id:     id,
		labels: labels,
		// No proxy: holders are on this machine, or as near as the engine.
		http:  &http.Client{Timeout: controlTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 2}},
		nodes: make(map[string]*dockerNode, len(spec.Nodes)),
	}
	for _, n := range spec.Nodes {
		d.nodes[n] = &dockerNode{}
	}
	return d
}

func (d *docker) prepare(ctx context.Context) ([]Peer, error) {
	var holderImage string
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		d.image, err = d.spec.Image.resolve(gctx, d.engine, d.spec.Log)
		if err != nil {
			return fmt.Errorf("image %s: %w", d.spec.Image, err)
		}
		return nil
	})
	g.Go(func() (err error) {
		holderImage, err = resolveHolder(gctx, d.engine, d.spec.Log)
		if err != nil {
			return fmt.Errorf("image of the holder: %w", err)
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	nw, err := d.createNetwork(ctx)
	if err != nil {
		return nil, fmt.Errorf("create the private network: %w", err)
	}
	g, gctx = errgroup.WithContext(ctx)
	for name, n := range d.nodes {
		g.Go(func() error {
			if err := d.startHolder(gctx, name, n, holderImage, nw.Name); err != nil {
				return fmt.Errorf("node %s: holder: %w", name, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return d.findHolders(ctx)
}

// startHolder creates and starts a node's holder and learns where it is.
func (d *docker) startHolder(ctx context.Context, name string, n *dockerNode, image, nw string) error {
	var exposed []string
	bindings := network.PortMap{}
	for _, p := range append(d.spec.ports(), holder.ControlPort) {
		port, ok := network.PortFrom(uint16(p), network.TCP)
		if !ok {
			return fmt.Errorf("port %d is not a port", p)
		}
		exposed = append(exposed, port.String())
		bindings[port] = []network.PortBinding{{HostIP: d.spec.Publish, HostPort: "0"}}
	}
	c, err := d.create(ctx, name, "", testcontainers.ContainerRequest{
		Image:          image,
		ExposedPorts:   exposed,
		Networks:       []string{nw},
		NetworkAliases: map[string][]string{nw: {name}},
		ConfigModifier: func(c *container.Config) { c.Hostname = name },
		HostConfigModifier: func(h *container.HostConfig) {
			h.CapAdd = []string{"NET_ADMIN"}
			h.PortBindings = bindings
		},
	})
	if err != nil {
		return err
	}
	n.holder = c
	if err := d.firstStart(ctx, c); err != nil {
		return err
	}
	info, err := d.engine.client.ContainerInspect(ctx, c, client.ContainerInspectOptions{})
	if err != nil {
		return fmt.Errorf("inspect: %w", err)
	}
	settings := info.Container.NetworkSettings
	if settings == nil || settings.Networks[nw] == nil || !settings.Networks[nw].IPAddress.IsValid() {
		return errors.New("the engine did not attach it to the private network")
	}
	n.place = place{ip: settings.Networks[nw].IPAddress, published: map[int]int{}}
	for port, at := range settings.Ports {
		if len(at) == 0 {
			continue
		}
		host, err := strconv.Atoi(at[0].HostPort)
		if err != nil {
			return fmt.Errorf("port %s is published at %q: %w", port, at[0].HostPort, err)
		}
		n.place.published[int(port.Num())] = host
	}
	return nil
}

// findHolders finds the route to the first holder, which is that to all, and waits for the
// others to answer on it.
func (d *docker) findHolders(ctx context.Context) ([]Peer, error) {
	candidates := routes(d.spec.Publish, d.engine.client.DaemonHost(), os.Getenv("TESTCONTAINERS_HOST_OVERRIDE"), defaultGateway())
	peers := make([]Peer, len(d.spec.Nodes))
	for i, name := range d.spec.Nodes {
		n := d.nodes[name]
		r, err := findRoute(ctx, d.http, candidates, n.place)
		if err != nil {
			return nil, fmt.Errorf("node %s: holder: %w", name, errors.Join(d.holderEnd(ctx, n), err))
		}
		candidates = []route{r}
		d.route = r
		n.client = holder.Client{Base: "http://" + r.addr(n.place, holder.ControlPort), HTTP: d.http}
		peers[i] = Peer{Name: name, IP: n.place.ip}
	}
	// An empty declaration needs all that a cut needs. One node speaks for all: they share a kernel.
	if _, err := d.nodes[d.spec.Nodes[0]].client.Declare(ctx, nil); err != nil {
		d.uncuttable = fmt.Errorf("the network between nodes cannot be cut on this engine: it needs nftables in its kernel and NET_ADMIN for containers (%w)", err)
		d.spec.Log("cluster: %v", d.uncuttable)
	}
	return peers, nil
}

// holderEnd says how a holder that does not answer has ended, if it has.
func (d *docker) holderEnd(ctx context.Context, n *dockerNode) error {
	info, err := d.engine.client.ContainerInspect(ctx, n.holder, client.ContainerInspectOptions{})
	if err != nil || info.Container.State == nil || info.Container.State.Running {
		return nil
	}
	return fmt.Errorf("exited with code %d; %s", info.Container.State.ExitCode, info.Container.State.Error)
}

func (d *docker) launch(ctx context.Context, name string, command []string) error {
	n := d.nodes[name]
	c, err := d.create(ctx, name, "-db", testcontainers.ContainerRequest{
		Image:      d.image,
		Entrypoint: slices.Clone(d.spec.Entrypoint),
		Cmd:        command,
		Env:        maps.Clone(d.spec.Env),
		Tmpfs:      maps.Clone(d.spec.Tmpfs),
		HostConfigModifier: func(h *container.HostConfig) {
			h.NetworkMode = container.NetworkMode("container:" + n.holder)
			// The engine's own default may drop old lines, or keep none at all.
			h.LogConfig = container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "100g", "max-file": "1"}}
		},
	})
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	n.mu.Lock()
	n.database = c
	n.mu.Unlock()
	return d.firstStart(ctx, c)
}

// createTimeout bounds one creation on the engine, in place of the caller's context.
const createTimeout = time.Minute

// creating is the context for one creation. It does not end with ctx: a request that is cut off
// leaves it open whether the engine completes it, perhaps after everything else was removed.
// Creations are short, so what has begun is let finish, and nothing new is begun.
func creating(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
	return ctx, cancel, nil
}

func (d *docker) createNetwork(ctx context.Context) (*testcontainers.DockerNetwork, error) {
	ctx, cancel, err := creating(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	return tcnetwork.New(ctx, tcnetwork.WithLabels(maps.Clone(d.labels)))
}

func (d *docker) firstStart(ctx context.Context, id string) error {
	ctx, cancel, err := creating(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	if _, err := d.engine.client.ContainerStart(ctx, id, client.ContainerStartOptions{}); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	return nil
}

// create creates one container of a node, with the labels by which it is removed, whatever
// becomes of this process.
func (d *docker) create(ctx context.Context, node, suffix string, req testcontainers.ContainerRequest) (id string, err error) {
	ctx, cancel, err := creating(ctx)
	if err != nil {
		return "", err
	}
	defer cancel()
	if strings.HasPrefix(req.Image, "jepsentest/") {
		// Made here: a mirror that is configured for testcontainers does not have it. Such a
		// mirror is not asked for names with a registry; this one is the default, by the
		// only name of it that testcontainers does not take for none.
		req.Image = "index.docker.io/" + req.Image
	}
	req.Name = "jepsentest-" + d.id + "-" + node + suffix
	req.Labels = maps.Clone(d.labels)
	req.Labels[labelNode] = node
	// A provider of its own: CreateContainer closes the provider's connections when it returns.
	p, err := testcontainers.NewDockerProvider()
	if err != nil {
		return "", err
	}
	defer p.Close()
	p.Logger = tclog.NewNoopLogger()
	c, err := p.CreateContainer(ctx, req)
	if err != nil {
		return "", err
	}
	return c.GetContainerID(), nil
}

func (d *docker) remove(ctx context.Context) error { return d.engine.removeCluster(ctx, d.id) }

func (d *docker) removal() string {
	filter := "--filter label=" + labelCluster + "=" + d.id
	return fmt.Sprintf("run: docker rm -f -v $(docker ps -aq %s); docker network rm $(docker network ls -q %s)", filter, filter)
}

func (d *docker) release() error {
	d.http.CloseIdleConnections()
	return d.engine.close()
}

func (d *docker) addr(node string, port int) string {
	n := d.nodes[node]
	if _, ok := n.place.published[port]; !ok || port == holder.ControlPort {
		return ""
	}
	return d.route.addr(n.place, port)
}
