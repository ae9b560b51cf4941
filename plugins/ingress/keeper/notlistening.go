package keeper

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// notListens is the reason of events where a port cannot be had.
	notListens = "NotListening"
	// saysFor bounds the time that these events take: the next try waits for it.
	saysFor = 5 * time.Second
)

// sayNotListening writes an event for each Ingress, as far as one round has them: they have no
// address, since nothing answers there. It writes them itself: the controller ends next, and a
// recorder would not have sent them by then. A later try renews the event of the one before.
func (k *keeper) sayNotListening(ctx context.Context, served []*networkingv1.Ingress, why error) {
	ctx, cancel := context.WithTimeout(ctx, saysFor)
	defer cancel()
	message := fmt.Sprintf("It is not served, and tried again: %v", why)
	hash := fnv.New32a()
	hash.Write([]byte(message))
	for _, i := range served[:min(len(served), mostEvents)] {
		now := metav1.Now()
		e := &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: i.Namespace, Name: fmt.Sprintf("%s.%08x", i.UID, hash.Sum32())},
			InvolvedObject: corev1.ObjectReference{
				APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "Ingress", Namespace: i.Namespace, Name: i.Name, UID: i.UID, ResourceVersion: i.ResourceVersion,
			},
			Type: corev1.EventTypeWarning, Reason: notListens, Message: message,
			FirstTimestamp: now, LastTimestamp: now, Count: 1, Source: corev1.EventSource{Component: Controller}, ReportingController: Controller,
		}
		_, err := k.client.CoreV1().Events(i.Namespace).Create(ctx, e, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			patch, fault := json.Marshal(map[string]metav1.Time{"lastTimestamp": now})
			if err = fault; err == nil {
				_, err = k.client.CoreV1().Events(i.Namespace).Patch(ctx, e.Name, types.MergePatchType, patch, metav1.PatchOptions{})
			}
		}
		if err != nil {
			k.log.Warn("event of an Ingress that is not served is not written", "namespace", i.Namespace, "ingress", i.Name, "error", err)
			return
		}
	}
}
