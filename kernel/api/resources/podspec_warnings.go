package resources

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// warnings collects what a client is told about a write that succeeds.
type warnings []string

func (w *warnings) add(p *field.Path, format string, args ...any) {
	*w = append(*w, fmt.Sprintf("%s: %s", p, fmt.Sprintf(format, args...)))
}

const (
	nullSelector   = "a null labelSelector results in matching no pod"
	fractionalByte = "fractional byte value %q is invalid, must be an integer"
	seccompByField = `non-functional in v1.27+; use the "seccompProfile" field instead`
)

// templateWarnings are those of a workload's template at path.
func templateWarnings(path *field.Path, t *corev1.PodTemplateSpec) []string {
	if t == nil {
		return nil
	}
	w := warnings(podSpecWarnings(path, &t.Spec, &t.ObjectMeta))
	// On pods the annotation becomes the field, with the warning.
	eachContainer(&t.Spec, path.Child("spec"), func(c *corev1.Container, _ *field.Path) {
		key := corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + c.Name
		note, ok := t.Annotations[key]
		if !ok || c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
			return
		}
		var level *corev1.AppArmorProfile
		if t.Spec.SecurityContext != nil {
			level = t.Spec.SecurityContext.AppArmorProfile
		}
		if level == nil || !sameProfile(level, appArmorOf(note)) {
			w.add(path.Child("metadata", "annotations").Key(key), "%s", appArmorByField)
		}
	})
	return w
}

// podSpecWarnings are those of pods, whose path is nil, and of templates.
func podSpecWarnings(path *field.Path, s *corev1.PodSpec, meta *metav1.ObjectMeta) []string {
	var w warnings
	spec, notes := path.Child("spec"), path.Child("metadata", "annotations")
	for key := range s.NodeSelector {
		if msg := oldNodeLabels[key]; msg != "" {
			w.add(spec.Child("nodeSelector").Key(key), "%s", msg)
		}
	}
	w = append(w, affinityWarnings(s.Affinity, spec.Child("affinity"))...)
	for i, c := range s.TopologySpreadConstraints {
		p := spec.Child("topologySpreadConstraints").Index(i)
		if msg := oldNodeLabels[c.TopologyKey]; msg != "" {
			w.add(p.Child("topologyKey"), "%s is %s", c.TopologyKey, msg)
		}
		if c.LabelSelector == nil {
			w.add(p.Child("labelSelector"), nullSelector)
		}
	}
	for _, old := range []struct{ key, msg string }{
		{"scheduler.alpha.kubernetes.io/critical-pod", `non-functional in v1.16+; use the "priorityClassName" field instead`},
		{"security.alpha.kubernetes.io/sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
		{"security.alpha.kubernetes.io/unsafe-sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
	} {
		if _, ok := meta.Annotations[old.key]; ok {
			w.add(notes.Key(old.key), "%s", old.msg)
		}
	}
	for i := range s.Volumes {
		w = append(w, volumeWarnings(&s.Volumes[i], spec.Child("volumes").Index(i))...)
	}
	for i, a := range s.HostAliases {
		if slices.ContainsFunc(s.HostAliases[:i], func(o corev1.HostAlias) bool { return o.IP == a.IP }) {
			w.add(spec.Child("hostAliases").Index(i).Child("ip"), "duplicate ip %q", a.IP)
		}
	}
	for i, ref := range s.ImagePullSecrets {
		p := spec.Child("imagePullSecrets").Index(i).Child("name")
		if slices.Contains(s.ImagePullSecrets[:i], ref) {
			w.add(p, "duplicate name %q", ref.Name)
		}
		if ref.Name == "" {
			w.add(p, "invalid empty name %q", ref.Name)
		}
	}
	w.fractions(s.Overhead, spec.Child("overhead"))
	if _, ok := meta.Annotations[corev1.SeccompPodAnnotationKey]; ok && (s.SecurityContext == nil || s.SecurityContext.SeccompProfile == nil) {
		w.add(notes.Key(corev1.SeccompPodAnnotationKey), seccompByField)
	}
	eachContainer(s, spec, func(c *corev1.Container, p *field.Path) {
		key := corev1.SeccompContainerAnnotationKeyPrefix + c.Name
		if _, ok := meta.Annotations[key]; ok && (c.SecurityContext == nil || c.SecurityContext.SeccompProfile == nil) {
			w.add(notes.Key(key), seccompByField)
		}
		w.fractions(c.Resources.Limits, p.Child("resources", "limits"))
		w.fractions(c.Resources.Requests, p.Child("resources", "requests"))
		for i, e := range c.Env {
			if !slices.ContainsFunc(c.Env[:i], func(o corev1.EnvVar) bool { return o.Name == e.Name }) {
				continue
			}
			// A value that extends the one before it is fine.
			ref := "$(" + e.Name + ")"
			if e.ValueFrom != nil || e.Value == ref || !strings.Contains(e.Value, ref) {
				w.add(p.Child("env").Index(i), "hides previous definition of %q, which may be dropped when using apply", e.Name)
			}
		}
	})
	w = append(w, portWarnings(s, spec)...)
	if p := s.TerminationGracePeriodSeconds; p != nil && *p < 0 {
		w.add(spec.Child("terminationGracePeriodSeconds"), "must be >= 0; negative values are invalid and will be treated as 1")
	}
	if s.DNSConfig != nil {
		for i, ip := range s.DNSConfig.Nameservers {
			w = append(w, validation.GetWarningsForIP(spec.Child("dnsConfig", "nameservers").Index(i), ip)...)
		}
	}
	for i, a := range s.HostAliases {
		w = append(w, validation.GetWarningsForIP(spec.Child("hostAliases").Index(i).Child("ip"), a.IP)...)
	}
	return w
}

// fractions warns of bytes that are not whole.
func (w *warnings) fractions(list corev1.ResourceList, p *field.Path) {
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourceStorage} {
		if q, ok := list[name]; ok && q.MilliValue()%1000 != 0 {
			w.add(p.Key(string(name)), fractionalByte, q.String())
		}
	}
}

func affinityWarnings(a *corev1.Affinity, path *field.Path) []string {
	if a == nil {
		return nil
	}
	var w warnings
	const required, preferred = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
	if n := a.NodeAffinity; n != nil {
		p := path.Child("nodeAffinity")
		if n.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			w = append(w, nodeSelectorWarnings(n.RequiredDuringSchedulingIgnoredDuringExecution, p.Child(required))...)
		}
		for i := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			at := p.Child(preferred).Index(i).Child("preference")
			term := &n.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference
			w = append(w, nodeTermWarnings(term, at)...)
			for j, e := range term.MatchExpressions {
				for k, v := range e.Values {
					for _, msg := range validation.IsValidLabelValue(v) {
						w.add(at.Child("matchExpressions").Index(j).Child("values").Index(k), "%s is invalid, %s", v, msg)
					}
				}
			}
		}
	}
	pods := func(terms []corev1.PodAffinityTerm, weighted []corev1.WeightedPodAffinityTerm, p *field.Path) {
		for i := range terms {
			if terms[i].LabelSelector == nil {
				w.add(p.Child(required).Index(i).Child("labelSelector"), nullSelector)
			}
		}
		for i := range weighted {
			if weighted[i].PodAffinityTerm.LabelSelector == nil {
				w.add(p.Child(preferred).Index(i).Child("podAffinityTerm", "labelSelector"), nullSelector)
			}
		}
	}
	if x := a.PodAffinity; x != nil {
		pods(x.RequiredDuringSchedulingIgnoredDuringExecution, x.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAffinity"))
	}
	if x := a.PodAntiAffinity; x != nil {
		pods(x.RequiredDuringSchedulingIgnoredDuringExecution, x.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAntiAffinity"))
	}
	return w
}

// portWarnings tells of ports that containers of one pod define twice.
func portWarnings(s *corev1.PodSpec, spec *field.Path) []string {
	type defined struct {
		at   *field.Path
		port corev1.ContainerPort
	}
	var w, names warnings
	seen, byName := map[string][]defined{}, map[string]*field.Path{}
	eachContainer(s, spec, func(c *corev1.Container, path *field.Path) {
		for i, port := range c.Ports {
			at := path.Child("ports").Index(i)
			if port.HostIP != "" && port.HostPort == 0 {
				w.add(at, "hostIP set without hostPort: %+v", port)
			}
			key := fmt.Sprintf("%d/%s", port.ContainerPort, port.Protocol)
			for _, o := range seen[key] {
				switch {
				case port.HostIP == o.port.HostIP && port.HostPort == o.port.HostPort:
					w.add(at, "duplicate port definition with %s", o.at)
				case port.HostPort == 0 || o.port.HostPort == 0:
					w.add(at, "overlapping port definition with %s", o.at)
				case port.HostPort == o.port.HostPort && (port.HostIP == "") != (o.port.HostIP == ""):
					w.add(at, "dangerously ambiguous port definition with %s", o.at)
				}
			}
			seen[key] = append(seen[key], defined{at, port})
			if port.Name == "" {
				continue
			}
			if first, ok := byName[port.Name]; ok {
				names.add(at, "duplicate port name %q with %s, services and probes that select ports by name will use %s", port.Name, first, first)
			} else {
				byName[port.Name] = at
			}
		}
	})
	return append(w, names...)
}

func volumeWarnings(v *corev1.Volume, p *field.Path) []string {
	var w warnings
	src := &v.VolumeSource
	for _, old := range []struct {
		name string
		set  bool
		msg  string
	}{
		{"photonPersistentDisk", src.PhotonPersistentDisk != nil, "deprecated in v1.11, non-functional in v1.16+"},
		{"gitRepo", src.GitRepo != nil, "deprecated in v1.11, and disabled by default in v1.33+"},
		{"scaleIO", src.ScaleIO != nil, "deprecated in v1.16, non-functional in v1.22+"},
		{"flocker", src.Flocker != nil, "deprecated in v1.22, non-functional in v1.25+"},
		{"storageOS", src.StorageOS != nil, "deprecated in v1.22, non-functional in v1.25+"},
		{"quobyte", src.Quobyte != nil, "deprecated in v1.22, non-functional in v1.25+"},
		{"glusterfs", src.Glusterfs != nil, "deprecated in v1.25, non-functional in v1.26+"},
		{"cephfs", src.CephFS != nil, "deprecated in v1.28, non-functional in v1.31+"},
		{"rbd", src.RBD != nil, "deprecated in v1.28, non-functional in v1.31+"},
	} {
		if old.set {
			w.add(p.Child(old.name), "%s", old.msg)
		}
	}
	if e := src.Ephemeral; e != nil && e.VolumeClaimTemplate != nil {
		w = append(w, claimSpecWarnings(&e.VolumeClaimTemplate.Spec, p.Child("ephemeral", "volumeClaimTemplate", "spec"))...)
	}
	if src.Projected != nil {
		for i := range src.Projected.Sources {
			if ptr.AllPtrFieldsNil(&src.Projected.Sources[i]) {
				w = append(w, fmt.Sprintf("volume %q (Projected) has no sources provided", v.Name))
			}
		}
	}
	return w
}

func claimSpecWarnings(s *corev1.PersistentVolumeClaimSpec, p *field.Path) []string {
	var w warnings
	storage := func(list corev1.ResourceList, name string) {
		if q := list[corev1.ResourceStorage]; q.MilliValue()%1000 != 0 {
			w.add(p.Child("resources", name).Key("storage"), fractionalByte, q.String())
		}
	}
	storage(s.Resources.Requests, "requests")
	storage(s.Resources.Limits, "limits")
	return w
}

// eachContainer visits a spec's containers with their paths, init containers
// first.
func eachContainer(s *corev1.PodSpec, spec *field.Path, visit func(*corev1.Container, *field.Path)) {
	for i := range s.InitContainers {
		visit(&s.InitContainers[i], spec.Child("initContainers").Index(i))
	}
	for i := range s.Containers {
		visit(&s.Containers[i], spec.Child("containers").Index(i))
	}
	for i := range s.EphemeralContainers {
		visit((*corev1.Container)(&s.EphemeralContainers[i].EphemeralContainerCommon), spec.Child("ephemeralContainers").Index(i))
	}
}
