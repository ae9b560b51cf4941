package deployment

import (
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

const (
	revisionAnnotation = "deployment.kubernetes.io/revision"
	historyAnnotation  = "deployment.kubernetes.io/revision-history"
	desiredAnnotation  = "deployment.kubernetes.io/desired-replicas"
	maxAnnotation      = "deployment.kubernetes.io/max-replicas"

	// maxHistoryLength bounds the history of revisions, in bytes.
	maxHistoryLength = 2000
)

// ownAnnotations belong to one object and are not copied to the other kind.
var ownAnnotations = map[string]bool{
	corev1.LastAppliedConfigAnnotation: true,
	appsv1.DeprecatedRollbackTo:        true,
	revisionAnnotation:                 true,
	historyAnnotation:                  true,
	desiredAnnotation:                  true,
	maxAnnotation:                      true,
}

// revision is 0 for a replica set without a number.
func revision(rs *appsv1.ReplicaSet) int64 {
	n, err := strconv.ParseInt(rs.Annotations[revisionAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func maxRevision(sets []*appsv1.ReplicaSet) (highest int64) {
	for _, rs := range sets {
		highest = max(highest, revision(rs))
	}
	return highest
}

// annotate copies the deployment's annotations to the replica set of its
// current template, the change cause with them, and raises its revision; the
// number it had goes to its history. It says whether anything changed.
func annotate(rs *appsv1.ReplicaSet, dep *appsv1.Deployment, newest int64) bool {
	changed := false
	for k, v := range dep.Annotations {
		if had, there := rs.Annotations[k]; !ownAnnotations[k] && (!there || had != v) {
			set(rs, k, v)
			changed = true
		}
	}
	before, had := rs.Annotations[revisionAnnotation]
	number, err := strconv.ParseInt(before, 10, 64)
	if err != nil && before != "" || number >= newest {
		return changed // not ours to correct, or the newest already
	}
	set(rs, revisionAnnotation, strconv.FormatInt(newest, 10))
	if had {
		var history []string
		if h := rs.Annotations[historyAnnotation]; h != "" {
			history = strings.Split(h, ",")
		}
		history = append(history, before)
		for len(history) > 1 && len(strings.Join(history, ",")) > maxHistoryLength {
			history = history[1:]
		}
		set(rs, historyAnnotation, strings.Join(history, ","))
	}
	return true
}

// restoreAnnotations gives the deployment the annotations that it had with an
// earlier revision, so that its change cause is that one's again.
func restoreAnnotations(dep *appsv1.Deployment, rs *appsv1.ReplicaSet) {
	restored := map[string]string{}
	for k, v := range dep.Annotations {
		if ownAnnotations[k] {
			restored[k] = v
		}
	}
	for k, v := range rs.Annotations {
		if !ownAnnotations[k] {
			restored[k] = v
		}
	}
	dep.Annotations = restored
}

// annotateSize notes the size that the deployment had; it says whether
// anything changed.
func annotateSize(rs *appsv1.ReplicaSet, desired, most int32) bool {
	d, m := strconv.Itoa(int(desired)), strconv.Itoa(int(most))
	if rs.Annotations[desiredAnnotation] == d && rs.Annotations[maxAnnotation] == m {
		return false
	}
	set(rs, desiredAnnotation, d)
	set(rs, maxAnnotation, m)
	return true
}

func size(rs *appsv1.ReplicaSet, annotation string) (int32, bool) {
	n, err := strconv.ParseInt(rs.Annotations[annotation], 10, 32)
	return int32(n), err == nil && n >= 0
}

func set(rs *appsv1.ReplicaSet, key, value string) {
	if rs.Annotations == nil {
		rs.Annotations = map[string]string{}
	}
	rs.Annotations[key] = value
}
