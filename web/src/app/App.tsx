import { Component, Suspense, useEffect, useRef, type ReactNode } from 'react';
import { ButtonLink } from '../components/Button';
import { Empty, Skeleton } from '../components/Placeholder';
import { Note } from '../components/Note';
import styles from './App.module.css';
import { Header } from './Header';
import { OperationBanner } from './OperationBanner';
import { href, usePlace } from './router';
import { routeOf, type Route } from './routes';
import { TokenDialog } from './TokenDialog';

/** The frame of every page. */
export function App() {
  const { page, rest, query } = usePlace();
  const route = routeOf(page);
  const main = useRef<HTMLElement>(null);

  // What else the address has belongs to what is shown already, such as what is typed into a form.
  const place = [page, ...rest, query.get('operation') ?? ''].join('/');
  const shown = useRef(place);
  useEffect(() => {
    document.title = `${route?.title ?? 'Not found'} – dgxmm`;
    if (shown.current === place) return;
    shown.current = place;
    // As after loading a page: at its top, with the keyboard inside it.
    window.scrollTo(0, 0);
    main.current?.focus({ preventScroll: true });
  }, [place, route]);

  return (
    <>
      <a
        className={styles.skip}
        href="#main"
        onClick={(event) => {
          event.preventDefault(); // the address is the page's
          main.current?.focus();
        }}
      >
        Skip to content
      </a>
      <Header current={route?.page ?? ''} />
      <OperationBanner />
      <main ref={main} id="main" className={styles.main} tabIndex={-1}>
        <Content route={route} />
      </main>
      <TokenDialog />
    </>
  );
}

function Content({ route }: { route: Route | null }) {
  if (!route) {
    return (
      <Empty title="There is no such page">
        <ButtonLink href={href('memory')}>To the memory</ButtonLink>
      </Empty>
    );
  }
  return (
    <Faults key={route.page}>
      <Suspense fallback={<Skeleton label={`Loading ${route.title}`} lines={5} />}>
        <route.Page />
      </Suspense>
    </Faults>
  );
}

/** A page that cannot be drawn or loaded leaves the others alone. */
class Faults extends Component<{ children: ReactNode }, { fault: Error | null }> {
  override state: { fault: Error | null } = { fault: null };

  static getDerivedStateFromError(fault: Error) {
    return { fault };
  }

  override render() {
    if (!this.state.fault) return this.props.children;
    return (
      <Note kind="error" role="alert">
        <p>
          <strong>This page could not be shown: </strong>
          {this.state.fault.message}
        </p>
        <p className="quiet">dgxmm may have been updated. Load the page again.</p>
        <ButtonLink
          small
          href=""
          onClick={(event) => {
            event.preventDefault();
            location.reload();
          }}
        >
          Load again
        </ButtonLink>
      </Note>
    );
  }
}
