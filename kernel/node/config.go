package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/node/client"
	"pintle.dev/pintle/kernel/node/eviction"
	"pintle.dev/pintle/kernel/node/gc"
	"pintle.dev/pintle/kernel/node/image/pullrecord"
	"pintle.dev/pintle/kernel/node/listener"
	"pintle.dev/pintle/kernel/node/nodestatus"
	"pintle.dev/pintle/kernel/node/oomscore"
	"pintle.dev/pintle/kernel/node/pleg"
	"pintle.dev/pintle/kernel/node/timetable"
	"pintle.dev/pintle/kernel/revocation"
)

// Config is what one node agent is told. The zero value of a field selects the default named beside it.
type Config struct {
	// NodeName is the name of the Node object (KNS-1: the key of status and health). Default: the host name.
	NodeName string
	// Labels and Taints are written when the node is registered; well-known labels also on each start.
	Labels map[string]string
	Taints []corev1.Taint
	// RuntimeName names the runtime plugin in logs only; the runtime itself reports its name and version over CRI.
	RuntimeName string
	// CRIEndpoint is the unix socket of the runtime, with or without the unix:// prefix. Not used when Deps.CRI is set.
	CRIEndpoint string
	// RootDir holds pods/<uid>/... (volumes, termination messages, hosts files). Required.
	RootDir string
	// LogDir holds pods/<ns>_<name>_<uid>/<container>/N.log. Default: RootDir/logs.
	LogDir string
	// Address is the IP that the kubelet server listens on. Default 0.0.0.0.
	Address string
	// Port is the kubelet server's port; 0 takes a free one, -1 starts no server (hollow nodes).
	Port int
	// PodCIDR is given to the runtime (UpdateRuntimeConfig), and written into a Node object that has none: a range, or one
	// of each IP family with a comma between them.
	PodCIDR string
	// PodCIDRGiven: the Node object has PodCIDR from others, who may give it to another node once this Node is deleted.
	PodCIDRGiven bool
	// ClusterDNS and ClusterDomain make the resolv.conf of ClusterFirst pods. Default domain cluster.local.
	ClusterDNS    []string
	ClusterDomain string
	// NoClusterDNS says, when a pod starts, that nothing answers at ClusterDNS in this cluster. Nil: something does.
	NoClusterDNS func() bool
	// ResolvConf is the host's resolver file. Default: what sandbox.Resolver finds.
	ResolvConf string
	// MaxPods is the pods capacity. Default 110.
	MaxPods int
	// NodeIPs are the InternalIPs, one of each IP family at most, the primary one first; none: the address of the default
	// route's interface, else loopback. Pods' addresses are in the order of these families.
	NodeIPs []string
	// HostnameOverride is the Hostname address. Default: NodeName.
	HostnameOverride string
	// Reserved is subtracted from capacity to give allocatable, and from the machine to give the limits of the cgroup of
	// all pods, where EnforceAllocatable is set. Default: nothing.
	Reserved           corev1.ResourceList
	EnforceAllocatable bool
	// Eviction are the thresholds below which the node has a pressure; none: nothing is measured. A pressure is told for
	// PressureTransition after it was seen last.
	Eviction           []eviction.Threshold
	PressureTransition time.Duration
	// LeastOOMScore is the least score of a container for the out-of-memory killer. Default -997, that of Guaranteed pods
	// where the runtime has -999.
	LeastOOMScore int64
	// Capacity replaces what is measured on the machine, by resource (hollow nodes).
	Capacity corev1.ResourceList
	// CgroupRoot is the parent of the pod cgroups ("kubepods" below it). Empty: no pod cgroups are made or named,
	// which is right where the agent is not root.
	CgroupRoot string
	// DefaultRuntimeHandler is the CRI handler for pods without a RuntimeClass. Default "".
	DefaultRuntimeHandler string
	// Guarded are directories of this machine that no hostPath volume may show: the kernel's own.
	Guarded []string
	// Listening are ports of this machine that the kernel serves on; the agent adds its own. Pods do not get them.
	Listening listener.Set
	// SeccompDefault gives containers that name no seccomp profile the runtime's. SeccompWaived lets containers run
	// without the profile RuntimeDefault where the runtime has no seccomp; otherwise they do not start.
	SeccompDefault, SeccompWaived bool
	// KubeletVersion is reported in nodeInfo. Default v1.36.3-pintle.
	KubeletVersion string

	// LeaseDuration and LeaseRenew are the heartbeat's numbers. Defaults 40 s, 10 s.
	LeaseDuration, LeaseRenew time.Duration
	// StatusUpdate is how often node status is computed (default 10 s), StatusReport how often it is written
	// though nothing changed (default 5 min).
	StatusUpdate, StatusReport time.Duration
	// RelistPeriod is the pod lifecycle event generator's period without an event stream (default 1 s);
	// EventedRelistPeriod the one beside a healthy stream (default 1 s; hollow nodes set it high).
	RelistPeriod, EventedRelistPeriod time.Duration
	// ResyncPeriod is the most time between two syncs of one pod. Default 1 min.
	ResyncPeriod time.Duration

	// OrphanPeriod is how often pods of the runtime that the API does not have are looked for (default 2 s),
	// ContainerGCPeriod how often dead containers are removed (default 1 min, KLT-33).
	OrphanPeriod, ContainerGCPeriod time.Duration

	// StoragePeriod is how often pods with a limit of local storage are measured. Default 10 s.
	StoragePeriod time.Duration

	// SerializeImagePulls allows one pull at a time (default false); MaxParallelImagePulls caps them (0: no cap).
	SerializeImagePulls   bool
	MaxParallelImagePulls int
	// ImagePullVerification says which pods may use an image that is on the node. Zero: all may, and nothing is recorded.
	ImagePullVerification pullrecord.Policy
	// ImageGCHigh and ImageGCLow are percent of the image file system (defaults 85, 80; FIL-14 names 90, and
	// Kubernetes 1.36's 85 is used); ImageMinAge defaults to 2 min. High 100 turns image GC off.
	ImageGCHigh, ImageGCLow int
	ImageMinAge             time.Duration
	// ContainerGC is the policy of dead containers: per pod container (nil: 1), over all (nil: no limit; negative: none
	// either), youngest age to be a candidate (default 0). See CGC-1..CGC-10.
	MaxPerPodContainer, MaxContainers *int
	ContainerMinAge                   time.Duration
	// LogMaxSize (bytes, default 10 MiB) and LogMaxFiles (default 5) rotate container logs.
	LogMaxSize  int64
	LogMaxFiles int
	// TearDownOnStop: Run ends by stopping every pod on the node and removing its mounts. Otherwise containers go on
	// running and the next start adopts them.
	TearDownOnStop bool
	// ShutdownGracePeriod is the most that a container gets when the whole node is torn down; less where its pod asks
	// for less. Default 30 s.
	ShutdownGracePeriod time.Duration
	// SkipVolumes makes no files for pods, collects no images and rotates no logs, and takes probes and hooks over the
	// network to succeed without a connection: for runtimes that run no processes.
	SkipVolumes bool
	// CrashBackOff and MaxCrashBackOff delay restarts of a container that keeps ending. Defaults 10 s, 300 s.
	CrashBackOff, MaxCrashBackOff time.Duration
	// APIClients are the user names (client certificate common names) that may use the kubelet server without
	// asking the API. Default: kube-apiserver-kubelet-client, system:kube-apiserver.
	APIClients []string
}

// Deps are what the agent works with; Client, Logger are required.
type Deps struct {
	// Client is the node's API client (identity system:node:<name>).
	Client client.Interface
	// Pods is a shared source, demultiplexed by node name. Nil: the agent watches its own pods.
	Pods PodSource
	// Nodes is a shared watch of the Node objects that its owner runs. Nil: the agent watches its own.
	Nodes *nodestatus.Source
	// Services lists services for environment variables. Nil: the agent watches services itself.
	Services corelisters.ServiceLister
	// CRI is a shared connection to the runtime; each call carries the metadata pintle-node. Nil: dial CRIEndpoint.
	CRI grpc.ClientConnInterface
	// RuntimeEvents is a shared reader of the runtime's events that its owner runs. Nil: the agent reads its own.
	RuntimeEvents *pleg.Events
	// Table is a shared timetable of the regular work that its owner runs. Nil: the agent has its own.
	Table *timetable.Table
	// Turn is called before each round of work for a pod, may wait, and returns the context of the round. Nil: work
	// begins at once.
	Turn func(context.Context) context.Context
	// Events is a shared broadcaster that its owner starts and stops. Nil: the agent has its own.
	Events record.EventBroadcaster
	// ServingCert is the kubelet server's TLS configuration (certificates). Required when Port >= 0.
	ServingCert *tls.Config
	// ClientCAs verify client certificates of the kubelet server.
	ClientCAs *x509.CertPool
	// Revoked refuses such certificates; nil: none are.
	Revoked *revocation.Guard
	// Logger receives the agent's log lines.
	Logger *slog.Logger
}

// withDefaults returns cfg with each zero field replaced, or what is wrong with it.
func (cfg Config) withDefaults() (Config, error) {
	if cfg.NodeName == "" {
		name, err := os.Hostname()
		if err != nil {
			return cfg, fmt.Errorf("node name: read host name: %w", err)
		}
		cfg.NodeName = name
	}
	if msgs := validation.IsDNS1123Subdomain(cfg.NodeName); len(msgs) > 0 {
		return cfg, fmt.Errorf("node name %q: %s", cfg.NodeName, msgs[0])
	}
	if cfg.RootDir == "" || !filepath.IsAbs(cfg.RootDir) {
		return cfg, fmt.Errorf("node %s: root directory %q must be an absolute path", cfg.NodeName, cfg.RootDir)
	}
	if cfg.LogDir == "" {
		cfg.LogDir = filepath.Join(cfg.RootDir, "logs")
	}
	for _, ip := range cfg.NodeIPs {
		if net.ParseIP(ip) == nil {
			return cfg, fmt.Errorf("node %s: node IP %q is not an IP address", cfg.NodeName, ip)
		}
	}
	if cfg.Port < -1 || cfg.Port > 65535 {
		return cfg, fmt.Errorf("node %s: port %d: use -1 (no server), 0 (any) or 1..65535", cfg.NodeName, cfg.Port)
	}
	if cfg.MaxParallelImagePulls < 0 || (cfg.MaxParallelImagePulls > 1 && cfg.SerializeImagePulls) {
		return cfg, fmt.Errorf("node %s: invalid configuration: maxParallelImagePulls %d cannot be combined with serializeImagePulls %t", cfg.NodeName, cfg.MaxParallelImagePulls, cfg.SerializeImagePulls)
	}
	setDefault(&cfg.Address, "0.0.0.0")
	setDefault(&cfg.ClusterDomain, "cluster.local")
	setDefault(&cfg.MaxPods, 110)
	setDefault(&cfg.LeastOOMScore, oomscore.Least(oomscore.Kubelet))
	setDefault(&cfg.HostnameOverride, cfg.NodeName)
	setDefault(&cfg.KubeletVersion, "v1.36.3-pintle")
	setDefault(&cfg.LeaseDuration, 40*time.Second)
	setDefault(&cfg.LeaseRenew, 10*time.Second)
	setDefault(&cfg.StatusUpdate, 10*time.Second)
	setDefault(&cfg.StatusReport, 5*time.Minute)
	setDefault(&cfg.RelistPeriod, time.Second)
	setDefault(&cfg.EventedRelistPeriod, time.Second)
	setDefault(&cfg.ResyncPeriod, time.Minute)
	setDefault(&cfg.OrphanPeriod, 2*time.Second)
	setDefault(&cfg.ContainerGCPeriod, gc.Period)
	setDefault(&cfg.StoragePeriod, 10*time.Second)
	if cfg.ImageGCHigh == 0 {
		cfg.ImageGCHigh, cfg.ImageGCLow = 85, 80
	}
	setDefault(&cfg.ImageMinAge, 2*time.Minute)
	setDefault(&cfg.MaxPerPodContainer, ptr.To(1))
	setDefault(&cfg.MaxContainers, ptr.To(-1))
	setDefault(&cfg.LogMaxSize, 10<<20)
	setDefault(&cfg.LogMaxFiles, 5)
	setDefault(&cfg.ShutdownGracePeriod, 30*time.Second)
	setDefault(&cfg.MaxCrashBackOff, 300*time.Second)
	setDefault(&cfg.CrashBackOff, min(10*time.Second, cfg.MaxCrashBackOff))
	if cfg.ImageGCLow > cfg.ImageGCHigh || cfg.ImageGCHigh > 100 {
		return cfg, fmt.Errorf("node %s: image GC thresholds low %d, high %d: want low <= high <= 100", cfg.NodeName, cfg.ImageGCLow, cfg.ImageGCHigh)
	}
	if cfg.LogMaxFiles < 2 {
		return cfg, fmt.Errorf("node %s: container log files %d: want 2 or more", cfg.NodeName, cfg.LogMaxFiles)
	}
	if len(cfg.APIClients) == 0 {
		cfg.APIClients = []string{"kube-apiserver-kubelet-client", "system:kube-apiserver"}
	}
	if q, ok := cfg.Capacity[corev1.ResourcePods]; !ok || q.IsZero() {
		c := cfg.Capacity.DeepCopy()
		if c == nil {
			c = corev1.ResourceList{}
		}
		c[corev1.ResourcePods] = *resource.NewQuantity(int64(cfg.MaxPods), resource.DecimalSI)
		cfg.Capacity = c
	}
	return cfg, nil
}

func (d Deps) check(cfg Config) error {
	switch {
	case d.Client == nil:
		return errors.New("node agent: no API client")
	case d.Logger == nil:
		return errors.New("node agent: no logger")
	case d.CRI == nil && cfg.CRIEndpoint == "":
		return errors.New("node agent: neither a CRI connection nor a CRI endpoint")
	case cfg.Port >= 0 && d.ServingCert == nil:
		return errors.New("node agent: the kubelet server needs a serving certificate")
	}
	return nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
