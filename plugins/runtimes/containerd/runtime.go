package containerd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/sdk/network"
	"pintle.dev/pintle/sdk/runtime"
)

// Runtime implements runtime.Runtime.
type Runtime struct {
	log    *slog.Logger
	cfg    Config
	layout layout
	state  string
	nat    translation // of the pods' addresses

	mu         sync.Mutex
	generation uint64
	pid        int // of the daemon when Status last looked
}

var _ runtime.Runtime = (*Runtime)(nil)

// New returns a runtime that is not started.
func New() *Runtime { return &Runtime{} }

// Start finds or starts containerd and imports the images that come with
// Pintle. The first start takes longer, since images are unpacked.
func (r *Runtime) Start(ctx context.Context, o runtime.Options) (runtime.Endpoint, error) {
	cfg, err := parseConfig(o.Config, o.ArtifactDirectory)
	if err != nil {
		return runtime.Endpoint{}, err
	}
	r.log, r.cfg, r.state = o.Logger, cfg, o.StateDirectory
	if cfg.Socket != "" {
		return r.startSystem(ctx)
	}
	if os.Geteuid() != 0 {
		return runtime.Endpoint{}, errors.New("containerd needs root: run as root, or set node.enabled to false")
	}
	pods, err := prefixes(strings.Split(o.PodCIDR, ","))
	if err != nil {
		return runtime.Endpoint{}, fmt.Errorf("start containerd: range of pod IPs: %w", err)
	}
	for _, dir := range []*string{&cfg.Tools, &cfg.Images} {
		if *dir, err = filepath.Abs(*dir); err != nil {
			return runtime.Endpoint{}, err
		}
	}
	others, err := prefixes(o.ClusterCIDRs)
	if err != nil {
		return runtime.Endpoint{}, fmt.Errorf("start containerd: ranges of pod IPs of all nodes: %w", err)
	}
	r.cfg = cfg
	r.layout = newLayout(o.DataDirectory, o.StateDirectory, cfg.Tools).given(o.Pods)
	r.nat = newTranslation(cfg.Bridge, pods, others, r.layout, r.log)
	if err := r.prepare(pods, o.Pods); err != nil {
		return runtime.Endpoint{}, err
	}
	message := "found the running containerd"
	var launched *child
	if running(r.layout) == 0 {
		message = "started the bundled containerd"
		if launched, err = start(r.layout); err != nil {
			return runtime.Endpoint{}, err
		}
	}
	version, err := await(ctx, r.layout, launched)
	if err == nil {
		err = importImages(ctx, r.layout, cfg.Images)
	}
	if err != nil {
		if launched != nil {
			// Containers that were here before do not need it.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*stopTimeout)
			defer cancel()
			err = errors.Join(err, terminate(ctx, r.layout))
		}
		return runtime.Endpoint{}, err
	}
	if err := killOrphanShims(r.layout); err != nil {
		r.log.Warn("something of former sandboxes is left until the next start", "err", err)
	}
	r.nat.start(ctx)
	r.mu.Lock()
	r.generation++
	r.pid = running(r.layout)
	r.mu.Unlock()
	if lack := seccompLack(ctx, filepath.Join(cfg.Tools, "runc")); lack != "" {
		message += "; " + lack
	}
	return runtime.Endpoint{Socket: r.layout.socket, Version: version, Message: message}, nil
}

// startSystem takes the system's containerd as it is.
func (r *Runtime) startSystem(ctx context.Context) (runtime.Endpoint, error) {
	r.layout = layout{socket: r.cfg.Socket}
	version, err := version(ctx, r.cfg.Socket)
	if err != nil {
		return runtime.Endpoint{}, fmt.Errorf("%w; start the system's containerd with its CRI plugin on, or leave config.socket empty for the bundled one", err)
	}
	if err := fitsCgroups(ctx, r.cfg.Socket); err != nil {
		return runtime.Endpoint{}, err
	}
	r.generation++
	return runtime.Endpoint{Socket: r.cfg.Socket, Version: version, Message: "found the system's containerd"}, nil
}

// fitsCgroups refuses a runtime that leaves cgroups to systemd: the node agent
// names them by path, and each sandbox would fail with runc's word for it.
func fitsCgroups(ctx context.Context, socket string) error {
	conn, err := dial(socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	c, err := runtimev1.NewRuntimeServiceClient(conn).RuntimeConfig(ctx, &runtimev1.RuntimeConfigRequest{})
	if status.Code(err) == codes.Unimplemented {
		return nil // containerd before 2.0 does not say
	}
	if err != nil {
		return fmt.Errorf("ask %s for its cgroup driver: %w", socket, err)
	}
	if c.GetLinux().GetCgroupDriver() == runtimev1.CgroupDriver_SYSTEMD {
		return fmt.Errorf("containerd at %s uses the cgroup driver systemd, Pintle cgroupfs; set SystemdCgroup = false for its runtime runc, "+
			"or leave config.socket empty for the bundled one", socket)
	}
	return nil
}

func dial(socket string) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", socket, err)
	}
	return conn, nil
}

// prepare writes the folders and files that the daemon reads.
func (r *Runtime) prepare(ranges []netip.Prefix, pods network.Pods) error {
	l := r.layout
	for _, dir := range []string{l.root, l.state, l.cniConf} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return fmt.Errorf("prepare containerd: %w", err)
		}
	}
	if err := writeFile(l.config, daemonConfig(l, r.cfg)); err != nil {
		return fmt.Errorf("prepare containerd: %w", err)
	}
	if pods.CNIConfigurations != "" {
		return nil // the network's own
	}
	file := filepath.Join(l.cniConf, "10-pintle.conflist")
	conf, err := networkConfig(r.cfg.Bridge, ranges, l.ipam, l.ports, pods.MTU)
	if err == nil {
		err = errors.Join(keepFormer(file, l.former), os.MkdirAll(l.ports, 0o700))
	}
	if err == nil {
		err = writeFile(file, conf)
	}
	if err != nil {
		return fmt.Errorf("prepare pod network: %w", err)
	}
	return nil
}

// writeFile writes a file whole or not at all.
func writeFile(file string, data []byte) error {
	tmp := file + ".tmp"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, file)
}

func version(ctx context.Context, socket string) (string, error) {
	conn, err := dial(socket)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	v, err := runtimev1.NewRuntimeServiceClient(conn).Version(ctx, &runtimev1.VersionRequest{})
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", socket, err)
	}
	return v.RuntimeName + " " + v.RuntimeVersion, nil
}

// Status implements runtime.Runtime. A daemon that ended is started again;
// its containers went on meanwhile.
func (r *Runtime) Status(ctx context.Context) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cfg.Socket != "" {
		if !dialable(ctx, r.cfg.Socket) {
			return r.generation, fmt.Errorf("containerd does not answer at %s", r.cfg.Socket)
		}
		return r.generation, nil
	}
	if running(r.layout) == 0 {
		r.log.Warn("containerd has ended and is started again", "last", lastLines(r.layout.logFile, 0))
		launched, err := start(r.layout)
		if err != nil {
			return r.generation, err
		}
		if _, err := await(ctx, r.layout, launched); err != nil {
			return r.generation, err
		}
		r.generation++
	}
	r.pid = running(r.layout)
	r.nat.mend()
	return r.generation, nil
}

// Stop implements runtime.Runtime.
func (r *Runtime) Stop(ctx context.Context, keepContainers bool) error {
	if keepContainers || r.cfg.Socket != "" || r.layout.socket == "" {
		return nil
	}
	var errs []error
	var launched *child
	if running(r.layout) == 0 && tasks(r.layout) {
		// Only a daemon can end the containers that outlived theirs.
		var err error
		launched, err = start(r.layout)
		errs = append(errs, err)
	}
	if running(r.layout) != 0 {
		_, err := await(ctx, r.layout, launched)
		if err == nil {
			err = removeSandboxes(ctx, r.layout.socket)
		}
		errs = append(errs, err)
	}
	errs = append(errs,
		terminate(ctx, r.layout),
		endShims(ctx, r.layout),
		unmountBelow(r.layout.state),
		removeBridge(r.cfg.Bridge),
		r.nat.clear(ctx),
		removeAll(ctx, r.layout.state),
	)
	return errors.Join(errs...)
}
