package nodepart

import (
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/dualstack"
	"pintle.dev/pintle/kernel/node"
	"pintle.dev/pintle/kernel/node/clusterdns"
	"pintle.dev/pintle/kernel/node/eviction"
	"pintle.dev/pintle/kernel/node/image/pullrecord"
	"pintle.dev/pintle/kernel/node/nodestatus"
	"pintle.dev/pintle/kernel/node/serviceproxy"
	"pintle.dev/pintle/sdk/proxy"
)

// settings is what the configuration says of this machine's node, with its name and folders.
func (p *Part) settings(cfg *config.Config) (node.Config, error) {
	out, err := agentSettings(cfg)
	out.NodeName, out.NodeIPs, out.KubeletVersion, out.RootDir = p.Name, dualstack.Strings(p.IPs), p.KubeletVersion, p.Pods
	return out, err
}

// agentSettings is what the configuration alone says.
func agentSettings(cfg *config.Config) (node.Config, error) {
	n := cfg.Node
	reserved, err := reservation(n)
	if err != nil {
		return node.Config{}, err
	}
	thresholds, err := eviction.ParseThresholds(n.EvictionHard)
	if err != nil {
		return node.Config{}, fmt.Errorf("node.evictionHard: %w", err)
	}
	lease := time.Duration(n.NodeLeaseDurationSeconds) * time.Second
	out := node.Config{
		Labels: n.Labels, RuntimeName: n.Runtime, Port: n.KubeletPort, PodCIDR: n.PodCIDR, MaxPods: n.MaxPods,
		HostnameOverride: n.HostnameOverride,
		SeccompDefault:   n.SeccompDefault, SeccompWaived: n.SeccompWaived, ShutdownGracePeriod: n.ShutdownGracePeriod, DefaultRuntimeHandler: n.DefaultRuntimeHandler,
		ClusterDNS: n.ClusterDNS, ClusterDomain: n.ClusterDomain, ResolvConf: n.ResolvConf,
		Reserved: reserved, EnforceAllocatable: slices.Contains(n.EnforceNodeAllocatable, "pods"),
		Eviction: thresholds, PressureTransition: n.PressureTransition,
		LeaseDuration: lease, LeaseRenew: lease / 4, // a quarter, as the kubelet
		StatusUpdate: n.NodeStatusUpdateFrequency, StatusReport: n.NodeStatusReportFrequency, ResyncPeriod: n.SyncFrequency,
		SerializeImagePulls: n.SerializeImagePulls, MaxParallelImagePulls: n.MaxParallelImagePulls,
		ImagePullVerification: pullrecord.Policy{
			Mode: kubeletv1beta1.ImagePullCredentialsVerificationPolicy(n.ImagePullVerification), Allowed: n.PreloadedImagesAllowlist,
		},
		ImageGCHigh: n.ImageGCHigh, ImageGCLow: n.ImageGCLow, ImageMinAge: n.ImageMinimumGCAge,
		MaxPerPodContainer: &n.MaxPerPodContainer, MaxContainers: &n.MaxDeadContainers, ContainerMinAge: n.MinimumContainerTTL,
		LogMaxSize: int64(n.ContainerLogMaxSize), LogMaxFiles: n.ContainerLogMaxFiles,
		MaxCrashBackOff: n.CrashLoopBackOff.MaxContainerRestartPeriod,
	}
	if n.DNS != "" && len(n.ClusterDNS) == 0 {
		address, err := clusterdns.Address(cfg.API.ServiceCIDR)
		if err != nil {
			return node.Config{}, err
		}
		out.ClusterDNS = []string{address}
	}
	out.Taints = registrationTaints(n)
	// No pod cgroups where this process may not make any.
	if os.Geteuid() == 0 {
		out.CgroupRoot = n.CgroupRoot
	}
	return out, nil
}

// noClusterDNS says that the cluster has no service at the address that pods are given: a machine
// without a kernel does not publish its DNS, so nothing leads there. An address that the
// configuration names counts as it is. Nil: there is one.
func noClusterDNS(cfg *config.Config, own *serviceproxy.Own) func() bool {
	if own == nil || len(cfg.Node.ClusterDNS) > 0 {
		return nil
	}
	return func() bool {
		return own.Absent(proxy.Name{Namespace: clusterdns.Namespace, Name: clusterdns.Service})
	}
}

// registrationTaints are those that a node is registered with.
func registrationTaints(n config.Node) (taints []corev1.Taint) {
	for _, t := range n.RegisterWithTaints {
		taints = append(taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	return taints
}

// reservation is what pods do not get: what is reserved for this kernel, or by default, and for the rest of the machine.
func reservation(n config.Node) (corev1.ResourceList, error) {
	sum := nodestatus.DefaultReservation(nodestatus.Measure())
	for key, text := range n.KubeReserved {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("node.kubeReserved: %s: %w", key, err)
		}
		sum[corev1.ResourceName(key)] = q
	}
	for key, text := range n.SystemReserved {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("node.systemReserved: %s: %w", key, err)
		}
		total := sum[corev1.ResourceName(key)]
		total.Add(q)
		sum[corev1.ResourceName(key)] = total
	}
	return sum, nil
}
