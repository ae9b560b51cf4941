package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/dualstack"
	"pintle.dev/pintle/kernel/node/cgroup"
	"pintle.dev/pintle/kernel/node/container"
	"pintle.dev/pintle/kernel/node/cri"
	"pintle.dev/pintle/kernel/node/eviction"
	"pintle.dev/pintle/kernel/node/gc"
	"pintle.dev/pintle/kernel/node/image"
	"pintle.dev/pintle/kernel/node/image/pullrecord"
	"pintle.dev/pintle/kernel/node/logs"
	"pintle.dev/pintle/kernel/node/nodestatus"
	"pintle.dev/pintle/kernel/node/object"
	"pintle.dev/pintle/kernel/node/pleg"
	"pintle.dev/pintle/kernel/node/pod"
	"pintle.dev/pintle/kernel/node/probe"
	"pintle.dev/pintle/kernel/node/sandbox"
	"pintle.dev/pintle/kernel/node/status"
	"pintle.dev/pintle/kernel/node/volume"
)

// parts are what one Run works with, and what TearDown builds for itself.
type parts struct {
	cri     *cri.Client
	events  record.EventRecorder
	own     record.EventBroadcaster // nil: shared
	objects *object.Cache
	volumes *volume.Manager
	images  *image.Puller
	probes  *probe.Manager
	status  *status.Manager
	pods    *pod.Manager
	pleg    *pleg.Generator
	// runtimeEvents are shared if Deps say so.
	runtimeEvents *pleg.Events
	reporter      *nodestatus.Reporter
	imageGC       *image.Collector
	gc            *gc.Collector
	rotator       *logs.Rotator
	cgroups       *cgroup.Manager   // nil: none are kept
	eviction      *eviction.Manager // nil: there is no machine
	// poke has the node's status written soon; set before anything of the parts runs.
	poke func()
}

// build makes the parts; nothing of them runs but what Close of each ends.
func (a *Agent) build(ctx context.Context, services func() ([]*corev1.Service, error)) (*parts, error) {
	p := &parts{}
	if a.deps.CRI != nil {
		p.cri = cri.New(a.deps.CRI, a.cfg.NodeName)
	} else {
		client, err := cri.Dial(a.cfg.CRIEndpoint, a.cfg.NodeName)
		if err != nil {
			return nil, err
		}
		p.cri = client
	}
	if len(a.cfg.NodeIPs) > 0 {
		p.cri.PreferIPv6 = net.ParseIP(a.cfg.NodeIPs[0]).To4() == nil
	}
	if !a.cfg.SkipVolumes {
		for _, dir := range []string{a.cfg.RootDir, filepath.Join(a.cfg.RootDir, "pods"), filepath.Join(a.cfg.LogDir, "pods")} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return nil, fmt.Errorf("node %s: make directories: %w", a.cfg.NodeName, err)
			}
		}
	}
	broadcaster := a.deps.Events
	if broadcaster == nil {
		broadcaster = record.NewBroadcaster(record.WithContext(ctx))
		broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: a.deps.Client.CoreV1().Events("")})
		p.own = broadcaster
	}
	p.events = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: a.cfg.NodeName})

	wake := func(uid types.UID) { p.pods.Wake(uid) }
	p.objects = object.New(a.deps.Client, wake)
	p.status = status.New(a.deps.Client, nil, a.deps.Logger)
	if p.runtimeEvents = a.deps.RuntimeEvents; p.runtimeEvents == nil {
		p.runtimeEvents = pleg.NewEvents(p.cri, a.deps.Logger)
	}
	p.pleg = pleg.New(pleg.Config{Relist: a.cfg.RelistPeriod, EventedRelist: a.cfg.EventedRelistPeriod}, p.cri, p.runtimeEvents, wake, a.deps.Logger)
	ips := a.cfg.NodeIPs
	if len(ips) == 0 {
		ips = []string{nodestatus.InternalIP(ctx)}
	}
	local := ""
	if !a.cfg.SkipVolumes {
		local = volume.LocalVolumes(a.cfg.RootDir)
	}
	p.reporter = nodestatus.New(nodestatus.Config{
		Name: a.cfg.NodeName, Hostname: a.cfg.HostnameOverride, NodeIPs: ips, Labels: a.cfg.Labels, Taints: a.cfg.Taints, PodCIDRs: dualstack.Split(a.cfg.PodCIDR), PodCIDRsGiven: a.cfg.PodCIDRGiven,
		Capacity: a.cfg.Capacity, Reserved: a.cfg.Reserved, KubeletVersion: a.cfg.KubeletVersion, RootDir: a.cfg.RootDir, LocalVolumes: local,
		Update: a.cfg.StatusUpdate, Report: a.cfg.StatusReport, Simulated: a.cfg.SkipVolumes,
	}, nodestatus.Deps{
		Client: a.deps.Client, CRI: p.cri, Events: p.events, Port: a.port, Healthy: p.pleg.Healthy, Logger: a.deps.Logger,
		Images: func() []*runtimeapi.Image { return p.imageGC.Images() },
		Pressures: func() eviction.Pressures {
			if p.eviction == nil {
				return eviction.Pressures{}
			}
			return p.eviction.Pressures()
		},
		Held: func(capacity corev1.ResourceList) corev1.ResourceList {
			if p.eviction == nil {
				return nil
			}
			return p.eviction.Reservation(capacity)
		},
	})
	if !a.cfg.SkipVolumes {
		p.eviction = a.newEviction(p)
	}
	p.imageGC = image.NewCollector(imagePolicy(a.cfg), p.cri,
		func(ctx context.Context) (image.FS, error) { return imageFS(ctx, p.cri) }, p.reporter.Event, a.deps.Logger)
	p.imageGC.Mounted = func() []string { return p.pods.VolumeImages() }
	p.probes = probe.New(probe.Deps{
		Exec: func(ctx context.Context, id string, command []string, timeout time.Duration) (int, []byte, error) {
			return pod.Exec(ctx, p.cri, id, command, timeout)
		},
		Status: p.status.Get, Changed: wake, Simulated: a.cfg.SkipVolumes, Logger: a.deps.Logger,
		Event: func(o *corev1.Pod, name, eventType, reason, message string) {
			p.pods.Event(o, name, eventType, reason, message)
		},
	})
	p.volumes = volume.New(a.cfg.RootDir, volume.Deps{
		Claims: claims{a.deps.Client},
		NodeLabels: func() map[string]string {
			if n := p.reporter.Object(); n != nil {
				return n.Labels
			}
			return nil
		},
		Source: func(uid types.UID) container.Source { return p.objects.For(uid) },
		Tokens: func(ctx context.Context, ns, account string, tr *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
			return a.deps.Client.CoreV1().ServiceAccounts(ns).CreateToken(ctx, account, tr, metav1.CreateOptions{})
		},
		Addresses: func(o *corev1.Pod) container.Addresses {
			addr := container.Addresses{HostIPs: ips}
			if rt := p.pods.Runtime(o.UID); rt != nil {
				addr.PodIPs = rt.IPs
			}
			return addr
		},
		Allocatable: func() corev1.ResourceList {
			if n := p.reporter.Object(); n != nil {
				return n.Status.Allocatable
			}
			return nil
		},
		Guarded: a.cfg.Guarded, Logger: a.deps.Logger,
	})
	var records *pullrecord.Store
	if a.cfg.ImagePullVerification.Mode != "" {
		var err error
		if records, err = pullrecord.Open(filepath.Join(a.cfg.RootDir, "image_manager"), a.cfg.ImagePullVerification); err != nil {
			return nil, fmt.Errorf("node %s: %w", a.cfg.NodeName, err)
		}
	}
	p.images = image.NewPuller(image.Config{Serialize: a.cfg.SerializeImagePulls, MaxParallel: a.cfg.MaxParallelImagePulls, Records: records}, p.cri,
		func(o *corev1.Pod, name, eventType, reason, message string) {
			p.pods.Event(o, name, eventType, reason, message)
		}, a.deps.Logger)
	var groups pod.Cgroups
	if a.cfg.CgroupRoot != "" {
		g, err := cgroup.New(a.cfg.CgroupRoot)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", a.cfg.NodeName, err)
		}
		if a.cfg.EnforceAllocatable {
			g.SetLimits(p.reporter.PodLimits())
		}
		groups, p.cgroups = g, g
	}
	p.pods = pod.New(pod.Config{
		LogDir: a.cfg.LogDir, Seccomp: container.SeccompProfiles{Dir: filepath.Join(a.cfg.RootDir, "seccomp"), Default: a.cfg.SeccompDefault},
		SeccompWaived: a.cfg.SeccompWaived, DefaultHandler: a.cfg.DefaultRuntimeHandler,
		Resolver: sandbox.Resolver{ClusterDNS: a.cfg.ClusterDNS, Absent: a.cfg.NoClusterDNS, ClusterDomain: a.cfg.ClusterDomain, ResolvConf: a.cfg.ResolvConf, Simulated: a.cfg.SkipVolumes},
		Resync:   a.cfg.ResyncPeriod, SkipVolumes: a.cfg.SkipVolumes,
		LeastOOMScore: a.cfg.LeastOOMScore, HugePages: p.reporter.HugePageSizes(),
		BackOff: a.cfg.CrashBackOff, MaxBackOff: a.cfg.MaxCrashBackOff,
	}, pod.Deps{
		Client: a.deps.Client, CRI: p.cri, Volumes: p.volumes, Images: p.images, Probes: p.probes, Status: p.status, Objects: p.objects,
		Services: services, Node: p.reporter, Cgroups: groups,
		Absent: func(uid types.UID) bool { return p.pleg.Pods()[uid] == nil }, Listening: a.Listening, Turn: a.deps.Turn, Events: p.events, Logger: a.deps.Logger,
	})
	p.gc = gc.New(containerPolicy(a.cfg), p.cri, a.cfg.LogDir, p.pods.Known, a.deps.Logger)
	p.rotator = logs.NewRotator(a.cfg.LogMaxSize, a.cfg.LogMaxFiles, p.cri, a.deps.Logger)
	return p, nil
}

func (p *parts) close() {
	p.pods.Close()
	p.probes.Close()
	p.objects.Close()
	if p.own != nil {
		p.own.Shutdown()
	}
	_ = p.cri.Close()
}

func imagePolicy(cfg Config) image.GCPolicy {
	return image.GCPolicy{High: cfg.ImageGCHigh, Low: cfg.ImageGCLow, MinAge: cfg.ImageMinAge}
}

func containerPolicy(cfg Config) gc.Policy {
	return gc.Policy{MinAge: cfg.ContainerMinAge, MaxPerContainer: *cfg.MaxPerPodContainer, MaxContainers: *cfg.MaxContainers}
}

// reconfigure takes over what of a configuration changes while the agent runs.
func (p *parts) reconfigure(cfg Config) {
	p.imageGC.SetPolicy(imagePolicy(cfg))
	p.gc.SetPolicy(containerPolicy(cfg))
	p.rotator.SetLimits(cfg.LogMaxSize, cfg.LogMaxFiles)
	if p.eviction != nil {
		p.eviction.SetThresholds(cfg.Eviction, cfg.PressureTransition)
	}
}

// enforcePeriod is how often limits of all pods are tried again that could not be set.
const enforcePeriod = time.Minute

// enforce sets the limits of all pods together, until that succeeds once. Later on they are set with each pod.
func (p *parts) enforce(context.Context) time.Duration {
	if err := p.cgroups.Enforce(); err != nil {
		p.reporter.Event(corev1.EventTypeWarning, "FailedNodeAllocatableEnforcement", fmt.Sprintf("Failed to update Node Allocatable Limits: %v", err))
		return enforcePeriod
	}
	p.reporter.Event(corev1.EventTypeNormal, "NodeAllocatableEnforced", "Updated Node Allocatable limit across pods")
	return 0
}

// tearDown ends every pod of the node and removes the cgroup of all pods.
func (p *parts) tearDown(ctx context.Context, grace time.Duration) error {
	err := p.pods.TearDown(ctx, grace)
	if p.cgroups != nil {
		p.cgroups.Leave()
	}
	return err
}

// newEviction makes the part that watches over the machine.
func (a *Agent) newEviction(p *parts) *eviction.Manager {
	var images string // of a runtime that tells it once, and the same for good; rounds come one at a time
	return eviction.New(eviction.Config{Thresholds: a.cfg.Eviction, Transition: a.cfg.PressureTransition, NodeFs: a.cfg.RootDir}, eviction.Deps{
		ImageFs: func(ctx context.Context) (string, error) {
			if images != "" {
				return images, nil
			}
			path, err := imageFSPath(ctx, p.cri)
			if err == nil {
				images = path
			}
			return path, err
		},
		PodMemory: func() (used, limit int64, ok bool) {
			if p.cgroups == nil {
				return 0, 0, false
			}
			return p.cgroups.Memory()
		},
		Reclaim: func(ctx context.Context) error {
			return errors.Join(p.gc.CollectOver(ctx, p.pods.Over), p.imageGC.RemoveUnused(ctx))
		},
		Writers: func(ctx context.Context) ([]eviction.Writer, error) { return p.pods.Writers(ctx) },
		Evict:   func(uid types.UID, message string) { p.pods.Evict(uid, message) },
		Event:   p.reporter.Event,
		Changed: func() { p.poke() },
		Logger:  a.deps.Logger,
	})
}
