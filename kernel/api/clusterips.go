package api

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"

	"pintle.dev/pintle/kernel/api/clusterips"
	"pintle.dev/pintle/kernel/dualstack"
)

// ensureServiceCIDR keeps the ServiceCIDR of the configured range.
func (s *Server) ensureServiceCIDR(ctx context.Context) error {
	return clusterips.EnsureDefault(ctx, s.starter.NetworkingV1().ServiceCIDRs(), dualstack.Split(s.cfg.ServiceCIDR), s.log)
}

// freeServiceIP takes away whatever record keeps the kubernetes service from its
// address: that of a server which was killed while it made the service, or one made
// by hand. The address is in the server's certificate and nobody else's.
func (s *Server) freeServiceIP(ctx context.Context, ip string) error {
	o, err := s.clusterIPs.Address(ctx, ip)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if of := o.Spec.ParentRef; of != nil && *of == kubernetesService {
		s.log.Info("an earlier start ended before it made service default/kubernetes; its address is recorded anew", "address", ip)
	} else {
		s.log.Warn("the address of service default/kubernetes was recorded for something else, and is taken back", "address", ip, "parentRef", of)
	}
	return s.clusterIPs.Remove(ctx, o)
}

// kubernetesService is what the record of the service's address names.
var kubernetesService = networkingv1.ParentReference{Resource: "services", Namespace: metav1.NamespaceDefault, Name: serviceName}

// repairClusterIPs compares services and their addresses' records while the server
// runs.
func (s *Server) repairClusterIPs(context.Context) error {
	var sources [3]cache.ListerWatcher
	for i, gvr := range []schema.GroupVersionResource{
		corev1.SchemeGroupVersion.WithResource("services"),
		networkingv1.SchemeGroupVersion.WithResource("ipaddresses"),
		networkingv1.SchemeGroupVersion.WithResource("servicecidrs"),
	} {
		var err error
		if sources[i], err = s.Source(gvr, nil); err != nil {
			return fmt.Errorf("cluster IPs: %w", err)
		}
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: s.client.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(s.stopping); err != nil {
		return fmt.Errorf("cluster IPs: events: %w", err)
	}
	repair := clusterips.NewRepair(&s.clusterIPs, s.ensureServiceCIDR, broadcaster.NewRecorder(scheme.Scheme, clusterips.Reporter), s.log)
	s.background.Go(func() {
		defer broadcaster.Shutdown()
		repair.Run(s.stopping, sources[0], sources[1], sources[2])
	})
	return nil
}
