package daemonset

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/dump"
)

const (
	hashLabel       = appsv1.DefaultDaemonSetUniqueLabelKey
	generationLabel = "pod-template-generation"
)

// templateHash is the value of the label controller-revision-hash: 32 bits over
// the template, and over the collision count if there is one.
func templateHash(t *corev1.PodTemplateSpec, collisions *int32) string {
	h := fnv.New32a()
	fmt.Fprintf(h, "%v", dump.ForHash(*t))
	if collisions != nil {
		var b [8]byte
		binary.LittleEndian.PutUint32(b[:], uint32(*collisions))
		h.Write(b[:])
	}
	return rand.SafeEncodeString(fmt.Sprint(h.Sum32()))
}

// generation is the count of templates that the API keeps in an annotation, empty
// if there is none.
func generation(ds *appsv1.DaemonSet) string {
	n, err := strconv.ParseInt(ds.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	if err != nil {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// updated says whether a pod is of the current template.
func updated(ds *appsv1.DaemonSet, pod *corev1.Pod, hash string) bool {
	g := generation(ds)
	return g != "" && pod.Labels[generationLabel] == g || hash != "" && pod.Labels[hashLabel] == hash
}

// tolerate adds what every pod of a daemon tolerates: it stays on a node that is
// not ready or not reachable, and comes to one under pressure or cordoned.
func tolerate(spec *corev1.PodSpec) {
	for _, taint := range []struct {
		key    string
		effect corev1.TaintEffect
	}{
		{corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute},
		{corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute},
		{corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule},
		{corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule},
		{corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule},
		{corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule},
		{corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule},
	} {
		if taint.key != corev1.TaintNodeNetworkUnavailable || spec.HostNetwork {
			addToleration(spec, corev1.Toleration{Key: taint.key, Operator: corev1.TolerationOpExists, Effect: taint.effect})
		}
	}
}

// addToleration takes the place of those that differ in the time alone.
func addToleration(spec *corev1.PodSpec, t corev1.Toleration) {
	kept, placed := spec.Tolerations[:0:0], false
	for _, old := range spec.Tolerations {
		switch {
		case !t.MatchToleration(&old):
			kept = append(kept, old)
		case !placed:
			kept, placed = append(kept, t), true
		}
	}
	if !placed {
		kept = append(kept, t)
	}
	spec.Tolerations = kept
}

// newPod is a pod of the set for a node. Its affinity has the name of the node in
// place of the template's terms, which the node met.
func newPod(ds *appsv1.DaemonSet, hash, node string) *corev1.Pod {
	t := ds.Spec.Template.DeepCopy()
	tolerate(&t.Spec)
	if t.Labels == nil {
		t.Labels = map[string]string{}
	}
	if g := generation(ds); g != "" {
		t.Labels[generationLabel] = g
	}
	t.Labels[hashLabel] = hash
	a := t.Spec.Affinity
	if a == nil {
		a = &corev1.Affinity{}
		t.Spec.Affinity = a
	}
	if a.NodeAffinity == nil {
		a.NodeAffinity = &corev1.NodeAffinity{}
	}
	a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
	}}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: namePrefix(ds.Name), Labels: t.Labels, Annotations: t.Annotations, Finalizers: t.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(ds, gvk)},
		},
		Spec: t.Spec,
	}
}

// namePrefix adds the dash only if the result is a name of pods.
func namePrefix(name string) string {
	if prefix := name + "-"; len(validation.NameIsDNSSubdomain(prefix, true)) == 0 {
		return prefix
	}
	return name
}

// target is the node that a pod is bound to, or will be; empty if it says none.
func target(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, f := range term.MatchFields {
			if f.Key == metav1.ObjectNameField && f.Operator == corev1.NodeSelectorOpIn {
				if len(f.Values) != 1 {
					return ""
				}
				return f.Values[0]
			}
		}
	}
	return ""
}
