package deployment

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/dump"
)

// templateHash is the value of the label pod-template-hash: 32 bits over the
// template, and over the collision count if there is one.
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

// sameTemplate compares templates without the hash that this controller adds.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	delete(a.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	delete(b.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	return equality.Semantic.DeepEqual(a, b)
}

// split returns the replica set of the current template, the oldest if there
// are several, and all others.
func split(dep *appsv1.Deployment, sets []*appsv1.ReplicaSet) (current *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) {
	slices.SortFunc(sets, byCreation)
	for _, rs := range sets {
		if current == nil && sameTemplate(&rs.Spec.Template, &dep.Spec.Template) {
			current = rs
		} else {
			old = append(old, rs)
		}
	}
	return current, old
}

func byCreation(a, b *appsv1.ReplicaSet) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// newSet is the replica set of the deployment's current template, without
// replicas yet.
func newSet(dep *appsv1.Deployment) *appsv1.ReplicaSet {
	t := dep.Spec.Template.DeepCopy()
	hash := templateHash(t, dep.Status.CollisionCount)
	t.Labels = with(t.Labels, hash)
	selector := dep.Spec.Selector.DeepCopy()
	selector.MatchLabels = with(selector.MatchLabels, hash)
	name := dep.Name
	if longest := validation.DNS1123SubdomainMaxLength - 1 - len(hash); len(name) > longest {
		name = name[:longest]
	}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: name + "-" + hash, Namespace: dep.Namespace, Labels: t.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(dep, gvk)},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32), MinReadySeconds: dep.Spec.MinReadySeconds, Selector: selector, Template: *t,
		},
	}
}

func with(labels map[string]string, hash string) map[string]string {
	labels = maps.Clone(labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	return labels
}
