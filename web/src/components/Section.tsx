import { useId, type ReactNode } from 'react';

/** A part of a page under a heading, which names it. */
export function Section({
  title,
  beside,
  children,
}: {
  title: string;
  /** At the end of the heading's line: what can be done with all of it. */
  beside?: ReactNode;
  children: ReactNode;
}) {
  const id = useId();
  return (
    <section className="stack" aria-labelledby={id}>
      <div className="row spread">
        <h2 id={id}>{title}</h2>
        {beside}
      </div>
      {children}
    </section>
  );
}
