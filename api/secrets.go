package api

import (
	"net/http"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func showSecret(s fsm.Secret) client.Secret {
	return client.Secret{
		Name: s.Name, Namespace: s.Namespace, Version: s.Version, TwoValues: len(s.Before) > 0,
		CreatedAt: at(s.Created), ChangedAt: at(s.Changed),
	}
}

// putSecret takes a value. Nothing ever tells it again.
func (a *api) putSecret(r *request) error {
	var in client.SecretRequest
	if err := decode(r.body, &in); err != nil {
		return err
	}
	cmd := fsm.PutSecret{Namespace: r.namespace, Name: r.name("name"), Retire: in.Retire}
	if err := job.ValidateName("name", cmd.Name); err != nil {
		return err
	}
	switch {
	case in.Value != "":
		key, wrong := job.SecretKey(in.Value)
		if wrong != nil {
			return wrong
		}
		var err error
		if cmd.Sealed, err = a.backend.SealSecret(cmd.Namespace, cmd.Name, key); err != nil {
			return err
		}
	case !in.Retire:
		return &job.Error{Code: job.CodeInvalid, Field: "value", Rule: "must be given, unless the value before is to be retired"}
	}
	if _, err := a.propose(r.ctx, cmd); err != nil {
		return err
	}
	var out client.Secret
	err := a.backend.Read(r.ctx, false, func(v fsm.Reader) error {
		s, ok := fsm.GetSecret(v, cmd.Namespace, cmd.Name)
		if !ok {
			return job.NotFound("secret", cmd.Name) // deleted meanwhile
		}
		out = showSecret(s)
		return nil
	})
	if err != nil {
		return err
	}
	return write(r, http.StatusOK, out)
}

func (a *api) listSecrets(r *request) error {
	out := client.SecretList{Secrets: []client.Secret{}}
	return a.answer(r, &out, func(v fsm.Reader) error {
		for _, s := range fsm.ListSecrets(v, r.namespace) {
			out.Secrets = append(out.Secrets, showSecret(s))
		}
		return nil
	})
}

func (a *api) deleteSecret(r *request) error {
	if _, err := a.propose(r.ctx, fsm.DeleteSecret{Namespace: r.namespace, Name: r.name("name")}); err != nil {
		return err
	}
	return r.NoContent(http.StatusNoContent)
}

func secretRoutes() []route {
	return []route{
		{
			method: get, path: "/v1/secrets", handle: (*api).listSecrets, statuses: ok, answer: client.SecretList{},
			summary: "List a namespace's secrets by name, without their values",
		},
		{
			method: put, path: "/v1/secrets/:name", handle: (*api).putSecret, statuses: ok, answer: client.Secret{}, body: client.SecretRequest{},
			summary: "Create a secret or give it another value; the value before stays valid beside it. Values can't be read",
		},
		{
			method: del, path: "/v1/secrets/:name", handle: (*api).deleteSecret, statuses: noContent,
			summary: "Delete a secret; callbacks that need it fail from then on",
		},
	}
}
