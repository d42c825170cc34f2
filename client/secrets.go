package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// SecretRequest creates or changes a secret.
type SecretRequest struct {
	// Value is 16 to 256 bytes: of text, or behind whsec_ of base64. It can't be read again.
	Value string `json:"value,omitempty"`
	// Retire forgets the value before at once; else it stays valid beside the new one.
	Retire bool `json:"retire,omitempty"`
}

// Secret is a secret without its value.
type Secret struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Version   uint64    `json:"version"`              // of the value, from 1
	TwoValues bool      `json:"two_values,omitempty"` // the one before is valid too
	CreatedAt time.Time `json:"created_at"`
	ChangedAt time.Time `json:"changed_at"`
}

// SecretList is a namespace's secrets.
type SecretList struct {
	Secrets []Secret `json:"secrets"`
}

// PutSecret creates a secret or gives it another value.
func (c *Client) PutSecret(ctx context.Context, name string, in SecretRequest) (Secret, error) {
	var out Secret
	err := c.call(ctx, request{method: http.MethodPut, path: secretPath(name), body: in}, &out)
	return out, err
}

// Secrets returns the namespace's secrets.
func (c *Client) Secrets(ctx context.Context) (SecretList, error) {
	var out SecretList
	err := c.get(ctx, "/v1/secrets", nil, &out)
	return out, err
}

// DeleteSecret removes a secret.
func (c *Client) DeleteSecret(ctx context.Context, name string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: secretPath(name)}, nil)
}

func secretPath(name string) string { return "/v1/secrets/" + url.PathEscape(name) }
