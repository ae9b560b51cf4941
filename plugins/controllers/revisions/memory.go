package revisions

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

// remembered is how many equalities a Memory holds; each takes about 110 bytes.
const remembered = 10_000

// Memory answers whether an object of now means the same as its latest
// revision, though the bytes differ. So it is when a version of Kubernetes gave
// its pod template a new default: without a comparison of the meaning, an
// upgrade of the API server would roll all pods. Safe for concurrent use.
type Memory struct{ equal *lru.Cache }

// NewMemory returns an empty memory.
func NewMemory() *Memory { return &Memory{equal: lru.New(remembered)} }

type equality struct {
	owner      types.UID
	generation int64
	version    string
}

// Same says whether wanted, which the owner's spec gives, is Equal to what
// rebuild makes of the latest revision. Rebuild restores the owner from that
// revision, has defaults set, and returns a revision of the result. It is called
// only if the answer for this generation of the owner and this version of the
// revision is not remembered; only a yes is.
func (m *Memory) Same(ctx context.Context, owner metav1.Object, wanted, latest *appsv1.ControllerRevision,
	rebuild func(ctx context.Context, latest *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error),
) (bool, error) {
	key := equality{owner.GetUID(), owner.GetGeneration(), latest.ResourceVersion}
	if _, yes := m.equal.Get(key); yes {
		return true, nil
	}
	again, err := rebuild(ctx, latest)
	if err != nil {
		return false, err
	}
	if !Equal(wanted, again) {
		return false, nil
	}
	m.equal.Add(key, struct{}{})
	return true, nil
}
