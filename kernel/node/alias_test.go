package node

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

type (
	authConfig      = runtimeapi.AuthConfig
	containerConfig = runtimeapi.ContainerConfig
)

func quantity(s string) *resource.Quantity { q := resource.MustParse(s); return &q }

func intOrString(n int32) *intstr.IntOrString { v := intstr.FromInt32(n); return &v }

var createOptions = metav1.CreateOptions{}
