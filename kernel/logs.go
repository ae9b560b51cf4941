package kernel

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"pintle.dev/pintle/kernel/inspect"
	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// logs answers with the records of a plugin or a bundle, a JSON object a line:
// the last ones (tail, a number), and with follow=true those that come.
func (k *Kernel) logs(req *http.Request, out io.Writer) error {
	o := plugin.LogOptions{Tail: -1}
	if text := req.FormValue("tail"); text != "" {
		var err error
		if o.Tail, err = strconv.Atoi(text); err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("tail: %q is not a number of records", text))
		}
	}
	if text := req.FormValue("follow"); text != "" {
		var err error
		if o.Follow, err = strconv.ParseBool(text); err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("follow: %q is not true or false", text))
		}
	}
	name := req.PathValue("name")
	begun := false
	err := k.host.Logs(req.Context(), name, o, func(line []byte) error {
		begun = true
		_, err := out.Write(line)
		return err
	})
	if errors.Is(err, plugin.ErrNoPlugin) && !begun {
		return inspect.NotFound(v1alpha1.SchemeGroupVersion.Group, "plugins", name)
	}
	return err
}
