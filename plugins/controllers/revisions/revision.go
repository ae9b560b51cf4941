package revisions

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"
)

// HashLabel holds the hash of a revision's data.
const HashLabel = "controller.kubernetes.io/hash"

// longestPrefix of a name, in bytes: what follows fits into the 253 of a name.
const longestPrefix = 223

// New returns a revision of the owner with the data, which must be JSON. It is
// not written yet. collisions may be nil, which differs from 0.
func New(owner metav1.Object, kind schema.GroupVersionKind, labels map[string]string, data []byte, number int64, collisions *int32) *appsv1.ControllerRevision {
	hash := Hash(data, collisions)
	r := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name:            Name(owner.GetName(), hash),
			Namespace:       owner.GetNamespace(),
			Labels:          maps.Clone(labels),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: number,
	}
	if r.Labels == nil {
		r.Labels = map[string]string{}
	}
	r.Labels[HashLabel] = hash
	return r
}

// Name is the name of a revision: at most 253 bytes, however long the prefix.
func Name(prefix, hash string) string {
	return prefix[:min(len(prefix), longestPrefix)] + "-" + hash
}

// Hash of the data and the collisions, of letters and digits that make no words.
func Hash(data []byte, collisions *int32) string {
	h := fnv.New32()
	_, _ = h.Write(data) // a hash never fails
	if collisions != nil {
		_, _ = h.Write([]byte(strconv.FormatInt(int64(*collisions), 10)))
	}
	return rand.SafeEncodeString(fmt.Sprint(h.Sum32()))
}

// Sort by number, then age, then name.
func Sort(revisions []*appsv1.ControllerRevision) {
	slices.SortStableFunc(revisions, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision),
			a.CreationTimestamp.Time.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// Next is the number that follows those of sorted revisions.
func Next(sorted []*appsv1.ControllerRevision) int64 {
	if len(sorted) == 0 {
		return 1
	}
	return sorted[len(sorted)-1].Revision + 1
}

// Equal says whether two revisions have the same data, byte by byte. Two nils are equal.
func Equal(a, b *appsv1.ControllerRevision) bool {
	if a == nil || b == nil {
		return a == b
	}
	return bytes.Equal(a.Data.Raw, b.Data.Raw)
}

// EqualTo returns those of the revisions that are Equal to wanted, in their order.
func EqualTo(all []*appsv1.ControllerRevision, wanted *appsv1.ControllerRevision) []*appsv1.ControllerRevision {
	var equal []*appsv1.ControllerRevision
	for _, r := range all {
		if Equal(r, wanted) {
			equal = append(equal, r)
		}
	}
	return equal
}
