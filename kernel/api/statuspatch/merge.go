package statuspatch

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/json"
)

// patch is a strategic merge patch of a status.
type patch struct {
	body []byte
	// uid of the pod that it is for; empty: any.
	uid types.UID
	// status is the part of that name. Merging takes it apart: nil afterwards.
	status map[string]any
}

// read takes a patch apart. It is false where there is anything but a status and the pod's UID.
func read(body []byte) (*patch, bool) {
	var whole map[string]any
	if faults, err := json.UnmarshalStrict(body, &whole); err != nil || len(faults) > 0 {
		return nil, false
	}
	p := &patch{body: body}
	for key, value := range whole {
		part, ok := value.(map[string]any)
		if !ok {
			return nil, false
		}
		switch key {
		case "status":
			p.status = part
		case "metadata":
			for name, value := range part {
				uid, ok := value.(string)
				if !ok || name != "uid" || uid == "" {
					return nil, false
				}
				p.uid = types.UID(uid)
			}
		default:
			return nil, false
		}
	}
	return p, p.status != nil
}

var reference = &corev1.Pod{}

// merge lays the patch over a status, which stays as it is.
func (p *patch) merge(status *corev1.PodStatus, defaults func(runtime.Object)) (corev1.PodStatus, error) {
	if p.status == nil { // it was merged with an older one
		again, ok := read(p.body)
		if !ok {
			return corev1.PodStatus{}, errors.New("the patch cannot be read again")
		}
		p.status = again.status
	}
	own := map[string]any{"status": p.status}
	p.status = nil
	// What is beside the status has no part in this.
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.Pod{Status: *status})
	if err != nil {
		return corev1.PodStatus{}, fmt.Errorf("take a status apart: %w", err)
	}
	after, err := strategicpatch.StrategicMergeMapPatch(before, own, reference)
	if err != nil {
		return corev1.PodStatus{}, fmt.Errorf("merge a status: %w", err)
	}
	pod := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(after, pod, true); err != nil {
		return corev1.PodStatus{}, fmt.Errorf("put a status together: %w", err)
	}
	defaults(pod)
	return stored(&pod.Status)
}

// stored is a status as decoding its encoding gives it: without parts of seconds, and without
// maps and lists that are empty and not nil.
func stored(status *corev1.PodStatus) (out corev1.PodStatus, err error) {
	raw, err := status.Marshal()
	if err != nil {
		return out, fmt.Errorf("encode a status: %w", err)
	}
	if err := out.Unmarshal(raw); err != nil {
		return out, fmt.Errorf("decode a status: %w", err)
	}
	return out, nil
}
