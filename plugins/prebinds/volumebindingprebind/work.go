package volumebindingprebind

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/storage/volume"
	csitranslation "k8s.io/csi-translation-lib"
	"k8s.io/klog/v2"

	"pintle.dev/pintle/plugins/predicates/claims"
	"pintle.dev/pintle/plugins/reserves/volumebindingreserve"
	"pintle.dev/pintle/sdk"
)

// The first looks at what was written come soon, as most volumes are there; later
// ones each second, as kube-scheduler's.
const (
	firstLook = 50 * time.Millisecond
	lastLook  = time.Second
)

// work is one pod's.
type work struct {
	client  kubernetes.Interface
	binding *sdk.Binding
	plan    *volumebindingreserve.Plan
}

// write asks for each binding and each provision. What was written before an error
// stays: the next attempt finds the volume bound to the claim.
func (w *work) write(ctx context.Context) error {
	for _, b := range w.plan.Bindings {
		claim, err := w.claim(ctx, b.Claim)
		if err != nil {
			return err
		}
		pv, err := w.client.CoreV1().PersistentVolumes().Get(ctx, b.Volume, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if ref := pv.Spec.ClaimRef; ref != nil && !volume.IsVolumeBoundToClaim(pv, claim) {
			return fmt.Errorf("pv %q was bound to claim %s/%s meanwhile", pv.Name, ref.Namespace, ref.Name)
		}
		bound, dirty, err := volume.GetBindVolumeToClaim(pv, claim)
		if err != nil {
			return err
		}
		if dirty {
			// The version that was read is part of it: who came first has it.
			if _, err := w.client.CoreV1().PersistentVolumes().Update(ctx, bound, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
	}
	for _, c := range w.plan.Provisions {
		claim, err := w.claim(ctx, c)
		if err != nil {
			return err
		}
		if claim.Annotations[claims.SelectedNode] == w.plan.Node {
			continue
		}
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, claims.SelectedNode, w.plan.Node)
		if _, err := w.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// claim reads a claim and makes sure that it is the one that was planned for.
func (w *work) claim(ctx context.Context, c volumebindingreserve.Claim) (*corev1.PersistentVolumeClaim, error) {
	claim, err := w.client.CoreV1().PersistentVolumeClaims(c.Namespace).Get(ctx, c.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if string(claim.UID) != c.UID {
		return nil, fmt.Errorf("persistentvolumeclaim %q was deleted and made anew", c.Name)
	}
	return claim, nil
}

// wait looks until all is bound, or something says that it will not be.
func (w *work) wait(ctx context.Context) error {
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		if done, err := w.bound(ctx); err != nil || done {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

func (w *work) bound(ctx context.Context) (bool, error) {
	pod := w.binding.Pod
	if _, err := w.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		return false, fmt.Errorf("pod does not exist any more: %w", err)
	}
	all := true
	for _, b := range w.plan.Bindings {
		pv, err := w.client.CoreV1().PersistentVolumes().Get(ctx, b.Volume, metav1.GetOptions{})
		if err != nil {
			return false, fmt.Errorf("failed to check binding: %w", err)
		}
		claim, err := w.claim(ctx, b.Claim)
		if err != nil {
			return false, fmt.Errorf("failed to check binding: %w", err)
		}
		if err := w.reaches(ctx, pv); err != nil {
			return false, err
		}
		if pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID == "" {
			return false, fmt.Errorf("ClaimRef got reset for pv %q", pv.Name)
		}
		all = all && complete(claim)
	}
	for _, c := range w.plan.Provisions {
		claim, err := w.claim(ctx, c)
		if err != nil {
			return false, fmt.Errorf("failed to check provisioning pvc: %w", err)
		}
		if claim.Annotations == nil {
			return false, fmt.Errorf("selectedNode annotation reset for PVC %q", claim.Name)
		}
		if claim.Annotations[claims.SelectedNode] != w.plan.Node {
			return false, fmt.Errorf("provisioning failed for PVC %q", claim.Name)
		}
		if claim.Spec.VolumeName != "" {
			pv, err := w.client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				return false, nil // perhaps not yet
			case err != nil:
				return false, fmt.Errorf("failed to get pv %q from cache: %w", claim.Spec.VolumeName, err)
			}
			if err := w.reaches(ctx, pv); err != nil {
				return false, err
			}
		}
		all = all && complete(claim)
	}
	return all, nil
}

// complete reports whether a claim has its volume for good.
func complete(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName != "" && metav1.HasAnnotation(claim.ObjectMeta, claims.BindCompleted)
}

// reaches checks a volume's node affinity, that of the CSI driver where the node has
// turned to it.
func (w *work) reaches(ctx context.Context, pv *corev1.PersistentVolume) error {
	translator := csitranslation.New()
	if translator.IsPVMigratable(pv) {
		name, err := translator.GetInTreePluginNameFromSpec(pv, nil)
		if err != nil {
			return err
		}
		node, err := w.client.StorageV1().CSINodes().Get(ctx, w.plan.Node, metav1.GetOptions{})
		if err == nil && slices.Contains(strings.Split(node.Annotations[corev1.MigratedPluginsAnnotationKey], ","), name) {
			if pv, err = translator.TranslateInTreePVToCSI(klog.Background(), pv); err != nil {
				return fmt.Errorf("failed to translate pv to csi: %w", err)
			}
		}
	}
	if err := volume.CheckNodeAffinity(pv, w.binding.Node.Labels); err != nil {
		return fmt.Errorf("pv %q node affinity doesn't match node %q: %w", pv.Name, w.plan.Node, err)
	}
	return nil
}
