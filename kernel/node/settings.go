package node

import (
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"
)

// settings tells the agent's settings as the kubelet tells its own (/configz). Reservations are one sum.
func (cfg Config) settings() *kubeletv1beta1.KubeletConfiguration {
	duration := func(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
	number := func(n int) *int32 { return ptr.To(int32(n)) }
	out := &kubeletv1beta1.KubeletConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: kubeletv1beta1.SchemeGroupVersion.String(), Kind: "KubeletConfiguration"},
		Address:  cfg.Address, Port: int32(cfg.Port), PodCIDR: cfg.PodCIDR, MaxPods: int32(cfg.MaxPods), CgroupRoot: cfg.CgroupRoot,
		ClusterDNS: cfg.ClusterDNS, ClusterDomain: cfg.ClusterDomain, ResolverConfig: &cfg.ResolvConf, SyncFrequency: duration(cfg.ResyncPeriod),
		NodeStatusUpdateFrequency: duration(cfg.StatusUpdate), NodeStatusReportFrequency: duration(cfg.StatusReport),
		NodeLeaseDurationSeconds: int32(cfg.LeaseDuration / time.Second), RegisterWithTaints: cfg.Taints,
		SerializeImagePulls: &cfg.SerializeImagePulls, ImageMinimumGCAge: duration(cfg.ImageMinAge),
		ImageGCHighThresholdPercent: number(cfg.ImageGCHigh), ImageGCLowThresholdPercent: number(cfg.ImageGCLow),
		ContainerLogMaxSize: strconv.FormatInt(cfg.LogMaxSize, 10), ContainerLogMaxFiles: number(cfg.LogMaxFiles),
		EvictionPressureTransitionPeriod: duration(cfg.PressureTransition), SeccompDefault: &cfg.SeccompDefault,
		CrashLoopBackOff: kubeletv1beta1.CrashLoopBackOffConfig{MaxContainerRestartPeriod: ptr.To(duration(cfg.MaxCrashBackOff))},
	}
	if cfg.MaxParallelImagePulls > 0 {
		out.MaxParallelImagePulls = number(cfg.MaxParallelImagePulls)
	}
	if cfg.EnforceAllocatable {
		out.EnforceNodeAllocatable = []string{"pods"}
	}
	for name, q := range cfg.Reserved {
		if out.KubeReserved == nil {
			out.KubeReserved = map[string]string{}
		}
		out.KubeReserved[string(name)] = q.String()
	}
	for _, t := range cfg.Eviction {
		if out.EvictionHard == nil {
			out.EvictionHard = map[string]string{}
		}
		text := t.Amount.String()
		if t.Share > 0 {
			text = strconv.FormatFloat(t.Share*100, 'f', -1, 64) + "%"
		}
		out.EvictionHard[string(t.Signal)] = text
	}
	return out
}
