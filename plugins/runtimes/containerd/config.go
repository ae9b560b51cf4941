package containerd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"pintle.dev/pintle/sdk/network"
)

// Config is the plugin's configuration.
type Config struct {
	// Socket of a containerd that runs already, such as
	// /run/containerd/containerd.sock. Empty: start the bundled one.
	Socket string `json:"socket,omitempty"`
	// Tools is the folder of the bundled tools. Defaults to the folder
	// containerd beside the plugins' folder.
	Tools string `json:"tools,omitempty"`
	// Images is a folder of image archives (*.tar) that are imported at
	// start. Defaults to the folder images beside the plugins' folder.
	Images string `json:"images,omitempty"`
	// Bridge is the name of the network bridge. Defaults to pintle0.
	Bridge string `json:"bridge,omitempty"`
	// Snapshotter keeps image layers. Defaults to overlayfs.
	Snapshotter string `json:"snapshotter,omitempty"`
	// RegistryHosts is a folder in containerd's form of mirrors, authorities and
	// credentials of registries: REGISTRY/hosts.toml. Empty: /etc/containerd/certs.d
	// and /etc/docker/certs.d, where they exist.
	RegistryHosts string `json:"registryHosts,omitempty"`
	// LogLevel of the daemon: debug, info, warn, error. Defaults to warn.
	LogLevel string `json:"logLevel,omitempty"`
}

// SandboxImage holds a pod's namespaces open; it is built with Pintle and
// imported, never pulled.
const SandboxImage = "docker.io/pintle/pause:1"

// maxBridgeName is what Linux allows for the name of an interface.
const maxBridgeName = 15

// parseConfig reads the configuration strictly and fills in the defaults.
func parseConfig(data []byte, artifacts string) (Config, error) {
	c := Config{
		Tools:       filepath.Join(artifacts, "..", "..", "containerd"),
		Images:      filepath.Join(artifacts, "..", "..", "images"),
		Bridge:      "pintle0",
		Snapshotter: "overlayfs",
		LogLevel:    "warn",
	}
	if len(data) > 0 {
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&c); err != nil {
			return c, fmt.Errorf("read configuration of runtime containerd: %w", err)
		}
		if err := dec.Decode(&struct{}{}); !errors.Is(err, io.EOF) {
			return c, errors.New("read configuration of runtime containerd: more than one JSON value")
		}
	}
	if c.Bridge == "" || len(c.Bridge) > maxBridgeName {
		return c, fmt.Errorf("configuration of runtime containerd: bridge %q: want 1 to %d characters", c.Bridge, maxBridgeName)
	}
	if c.RegistryHosts != "" {
		if !filepath.IsAbs(c.RegistryHosts) {
			return c, fmt.Errorf("configuration of runtime containerd: registryHosts %q: want an absolute path", c.RegistryHosts)
		}
		if info, err := os.Stat(c.RegistryHosts); err != nil || !info.IsDir() {
			return c, fmt.Errorf("configuration of runtime containerd: registryHosts %q is no folder that can be read (%v)", c.RegistryHosts, err)
		}
	}
	switch c.LogLevel {
	case "debug", "info", "warn", "error":
	default:
		return c, fmt.Errorf("configuration of runtime containerd: logLevel %q is not one of debug, info, warn, error", c.LogLevel)
	}
	return c, nil
}

// layout is where the bundled daemon keeps its things.
type layout struct {
	root    string // images and metadata; kept
	state   string // mounts and sockets; gone after Stop
	tasks   string // in state, a folder for each container and sandbox that runs
	tools   string
	socket  string
	pidFile string
	config  string
	cniConf string
	ipam    string // addresses of pods that are taken, a file each; kept
	ports   string // in state, host ports of pods, a file a sandbox
	former  string // a mark that a version used iptables, until its rules are gone
	logFile string
	plugins []string // folders of CNI plugins
}

// given has the network's own CNI configuration and plugins, where it has such.
func (l layout) given(pods network.Pods) layout {
	if pods.CNIConfigurations != "" {
		l.cniConf = pods.CNIConfigurations
	}
	if pods.CNIPlugins != "" {
		l.plugins = append(l.plugins, pods.CNIPlugins)
	}
	return l
}

func newLayout(data, state, tools string) layout {
	return layout{
		root:    filepath.Join(data, "root"),
		plugins: []string{filepath.Join(tools, "cni")},
		state:   filepath.Join(state, "state"),
		tasks:   filepath.Join(state, "state", "io.containerd.runtime.v2.task", "k8s.io"),
		tools:   tools,
		socket:  filepath.Join(state, "containerd.sock"),
		pidFile: filepath.Join(state, "containerd.pid"),
		config:  filepath.Join(data, "config.toml"),
		cniConf: filepath.Join(data, "net.d"),
		ipam:    filepath.Join(data, "ipam"),
		ports:   filepath.Join(state, "state", "hostports"),
		former:  filepath.Join(data, "former-network"),
		logFile: filepath.Join(data, "containerd.log"),
	}
}

// daemonConfig renders the configuration file of the bundled daemon.
func daemonConfig(l layout, c Config) []byte {
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Written by Pintle at each start; changes here are lost.")
	line("version = 3")
	line("root = %q", l.root)
	line("state = %q", l.state)
	if mayLowerOOMScore() {
		line("oom_score = -999") // the kubelet's, and its shims have one more: below every pod's
	}
	// NRI and tracing listen outside of our folders, and nothing uses them.
	line("disabled_plugins = ['io.containerd.nri.v1.nri', 'io.containerd.tracing.processor.v1.otlp', 'io.containerd.internal.v1.tracing']")
	line("[debug]")
	line("  level = %q", c.LogLevel)
	line("[grpc]")
	line("  address = %q", l.socket)
	line("[ttrpc]")
	line("  address = %q", l.socket+".ttrpc")
	line("[plugins.'io.containerd.internal.v1.opt']")
	line("  path = %q", filepath.Join(l.root, "opt"))
	line("[plugins.'io.containerd.cri.v1.images']")
	line("  snapshotter = %q", c.Snapshotter)
	line("[plugins.'io.containerd.cri.v1.images'.pinned_images]")
	line("  sandbox = %q", SandboxImage)
	if c.RegistryHosts != "" {
		line("[plugins.'io.containerd.cri.v1.images'.registry]")
		line("  config_path = %q", c.RegistryHosts)
	}
	line("[plugins.'io.containerd.cri.v1.runtime']")
	line("  ignore_deprecation_warnings = ['io.containerd.deprecation/cgroup-v1']")
	line("  netns_mounts_under_state_dir = true")
	if !mayLowerOOMScore() {
		line("  restrict_oom_score_adj = true")
	}
	line("[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]")
	line("  runtime_type = 'io.containerd.runc.v2'")
	line("[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]")
	line("  BinaryName = %q", filepath.Join(l.tools, "runc"))
	line("  Root = %q", filepath.Join(l.state, "runc"))
	line("  SystemdCgroup = false") // the node agent names cgroups by path
	line("[plugins.'io.containerd.cri.v1.runtime'.cni]")
	quoted := make([]string, len(l.plugins))
	for i, dir := range l.plugins {
		quoted[i] = strconv.Quote(dir)
	}
	line("  bin_dirs = [%s]", strings.Join(quoted, ", "))
	line("  conf_dir = %q", l.cniConf)
	line("  use_internal_loopback = true")
	return b.Bytes()
}

// mayLowerOOMScore reports whether this process may protect others from the
// out-of-memory killer, which takes CAP_SYS_RESOURCE: root in a container often
// lacks it, and no sandbox would start.
func mayLowerOOMScore() bool {
	const capSysResource = 24
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "CapEff:"); ok {
			mask, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			return err == nil && mask>>capSysResource&1 == 1
		}
	}
	return false
}

// networkName is the CNI network's; CNI plugins put it in what they make.
const networkName = "pintle"

// networkConfig renders the CNI network: a bridge with an address of each of the node's pod ranges, which
// are announced to all who remember another pod there, host ports with their records in
// ports, and the bandwidth that annotations limit.
func networkConfig(bridge string, pods []netip.Prefix, ipam, ports string, mtu int) ([]byte, error) {
	type object = map[string]any
	var ranges [][]object // a pod gets an address of each
	for _, r := range pods {
		ranges = append(ranges, []object{{"subnet": r.String()}})
	}
	plugins := []object{{
		"type":             "bridge",
		"bridge":           bridge,
		"isGateway":        true,
		"ipMasq":           false, // one rule of the node does
		"hairpinMode":      true,
		"isDefaultGateway": true,
		"ipam": object{
			"type":    "host-local",
			"dataDir": ipam,
			"ranges":  ranges,
		},
	}, {"type": "announce"}, {
		"type": "hostports", "bridge": bridge, "dataDir": ports,
		"capabilities": object{"portMappings": true},
	}, {
		"type":         "bandwidth",
		"capabilities": object{"bandwidth": true},
	}}
	if mtu > 0 {
		plugins[0]["mtu"] = mtu
	}
	// From 1.1.0 on containerd starts every plugin at each question for its status.
	return json.MarshalIndent(object{"cniVersion": "1.0.0", "name": networkName, "plugins": plugins}, "", "  ")
}
