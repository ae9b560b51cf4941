package localvolumes

import (
	"regexp"

	"k8s.io/apimachinery/pkg/types"
)

// Provisioner names who makes such volumes, in StorageClasses and in the annotation pv.kubernetes.io/provisioned-by.
const Provisioner = "pintle.dev/hostpath"

// Annotation of a node is the absolute path of the directory of its volumes. A node without it has none.
const Annotation = "kernel.pintle.dev/local-volumes"

var form = regexp.MustCompile(`^pvc-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// Name is the name of the volume of a claim. It is Valid if the UID is one that an API server gives.
func Name(claim types.UID) string { return "pvc-" + string(claim) }

// Valid says whether a volume can have the name.
func Valid(name string) bool { return form.MatchString(name) }

// RemovePath is the path on the node agent's server that removes a volume by DELETE. The answer is 204 when it is
// gone, 202 when it is on its way and is to be asked for again, 409 when a pod has it, 400 for a name that is none.
func RemovePath(name string) string { return "/localvolumes/" + name }
